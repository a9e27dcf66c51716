"""What leaves a device that takes part in a run, for its owner to know before it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from paceline.errors import ConfigError


class Disclosure(NamedTuple):
    """Something that leaves a device.

    Attributes:
        what: the words for it, after "this device will send".
        is_private: whether a private device refuses to send it: what it can do, or its data.
    """

    what: str
    is_private: bool = False


def check_consent(disclosures: Sequence[Disclosure], is_private: bool) -> None:
    """Raise `ConfigError` if a private device would have to send what is private."""
    refused = [disclosure.what for disclosure in disclosures if disclosure.is_private]
    if is_private and refused:
        raise ConfigError(f"this device is private, and would have to send {'; '.join(refused)}")
