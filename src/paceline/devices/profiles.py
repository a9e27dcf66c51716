"""Profiles: measurements of a device, for one job's model and one link."""

from __future__ import annotations

import sys
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from paceline.checks import NotNegative, Ratio, check_fields


class Rate(msgspec.Struct, frozen=True):
    """A rate, and its variation.

    Attributes:
        per_second: bytes or samples per second; median of the measurements.
        spread: standard deviation of the rate, as a ratio of it (0.1 is 10 %).
    """

    per_second: Annotated[float, Meta(gt=0, le=sys.float_info.max)]  # modelled links may take next to no time
    spread: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of a device, for one job's model and one link.

    Attributes:
        train: samples per second for one local epoch of the job's model.
        down: bytes per second from the orchestrator to the device.
        up: bytes per second from the device to the orchestrator.
        latency_seconds: time of a call apart from its bytes.
    """

    train: Rate
    down: Rate
    up: Rate
    latency_seconds: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self)


MAX_STATES = 64
"""Most states that a device may have."""

StateName: TypeAlias = Annotated[str, Meta(max_length=80)]


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """A state that a device may be in, its probability, and the device's profile in it."""

    state: StateName
    probability: Ratio
    profile: Profile

    def __post_init__(self) -> None:
        check_fields(self)
