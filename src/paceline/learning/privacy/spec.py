"""What a job promises the devices that train it about what is learned of their data."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta

from paceline.checks import NotNegative, Positive, Spec, check_fields

MIN_MASKED = 3
"""Fewest learners whose updates are summed under masks: of two, each knows the other's by the sum."""

UNMASKING_PART = 0.1
"""Part of the deadline that is kept for taking off the masks: updates are due so much earlier."""


class PrivacySpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Privacy of federated devices: the ``[privacy]`` table of a job; `ValueError` for a value out of range.

    Attributes:
        secure_aggregation: whether updates are masked, so that the orchestrator learns no more than their sum.
        noise_multiplier: standard deviation of the noise in the sum of updates, over `clip_norm`; 0 for none.
        clip_norm: largest norm of an update's change; those that are larger are scaled down to it. Needed for noise.
        delta: probability with which the promise of epsilon may fail.
        max_epsilon: the run ends before a round that would take epsilon beyond this; None for no limit.
    """

    secure_aggregation: bool = False
    noise_multiplier: NotNegative = 0.0
    clip_norm: Positive | None = None
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-5
    max_epsilon: Positive | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.noise_multiplier and self.clip_norm is None:
            raise ValueError(
                f"noise_multiplier is {self.noise_multiplier:g}, but there is no clip_norm: noise hides an update only "
                "if that cannot be larger than known; set clip_norm, such as 1.0"
            )
        if self.max_epsilon is not None and not self.noise_multiplier:
            raise ValueError("max_epsilon is set, but noise_multiplier is 0: without noise, epsilon is infinite")

    @property
    def is_on(self) -> bool:
        """Whether updates are treated in any other way than by default."""
        return self.secure_aggregation or self.clip_norm is not None

    @property
    def noise_norm(self) -> float:
        """Standard deviation of the noise in the sum of the changes."""
        return self.noise_multiplier * (self.clip_norm or 0.0)

    def noise_of_one(self, num_needed: int) -> float:
        """Return the standard deviation of what each adds, if so many together are to add what the sum needs."""
        return self.noise_norm / math.sqrt(num_needed)
