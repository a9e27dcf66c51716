"""Privacy of devices whose data stays with them: sums of masked updates, and noise with a bounded loss."""

from paceline.learning.privacy.accounting import PrivacyAccount, epsilon_of
from paceline.learning.privacy.clipping import change_of, clipped, moved, with_noise
from paceline.learning.privacy.masks import Masker, MaskError, Unmasking, num_needed
from paceline.learning.privacy.spec import PrivacySpec

__all__ = [
    "MaskError",
    "Masker",
    "PrivacyAccount",
    "PrivacySpec",
    "Unmasking",
    "change_of",
    "clipped",
    "epsilon_of",
    "moved",
    "num_needed",
    "with_noise",
]
