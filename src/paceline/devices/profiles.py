"""What was measured of a device, for one job's model and one link."""

from __future__ import annotations

import math

import msgspec

from paceline.errors import ConfigError


class Rate(msgspec.Struct, frozen=True):
    """A rate, and how much it varies.

    Attributes:
        per_second: bytes or samples per second; the middle of what was measured.
        spread: standard deviation of the rate, as a ratio of it (0.1 is 10 %).
    """

    per_second: float
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.per_second < math.inf and 0 <= self.spread < math.inf):
            raise ConfigError(f"{self}: per_second must be above 0 and spread at least 0")


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a device, for one job's model and one link.

    Attributes:
        train: samples per second for one local epoch of the job's model.
        down: bytes per second from the orchestrator to the device.
        up: bytes per second from the device to the orchestrator.
        latency_seconds: what each call takes besides its bytes.
    """

    train: Rate
    down: Rate
    up: Rate
    latency_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.latency_seconds < math.inf:
            raise ConfigError(f"latency_seconds is {self.latency_seconds}; it must be at least 0")


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """A state that a device may be in, how likely that is, and what was measured of the device in it."""

    state: str
    probability: float
    profile: Profile

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ConfigError(f"state {self.state[:40]!r}: probability is {self.probability}; allowed: 0 to 1")
