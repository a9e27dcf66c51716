"""Profiles: what was measured, and nothing that cannot have been."""

import math

import msgspec
import pytest

from paceline.devices import Profile, Rate
from paceline.errors import ConfigError

BAD_RATES = [(0, 0), (-1, 0), (math.nan, 0), (math.inf, 0), (1, -0.1), (1, math.nan), (1, math.inf)]


def test_a_profile_travels_as_it_is():
    profile = Profile(train=Rate(900.0, 0.1), down=Rate(1e6), up=Rate(2e5, 0.3), latency_seconds=0.02)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(profile), type=Profile) == profile
    assert msgspec.convert(msgspec.to_builtins(profile), Profile) == profile


@pytest.mark.parametrize(("per_second", "spread"), BAD_RATES)
def test_impossible_rates_are_refused(per_second, spread):
    with pytest.raises(ConfigError, match="per_second must be above 0 and spread at least 0"):
        Rate(per_second, spread)
    with pytest.raises(ConfigError, match="per_second must be above 0"):
        msgspec.convert({"per_second": float(per_second), "spread": float(spread)}, Rate)


@pytest.mark.parametrize("latency_seconds", [-0.001, math.nan, math.inf])
def test_impossible_latencies_are_refused(latency_seconds):
    with pytest.raises(ConfigError, match=f"latency_seconds is {latency_seconds}; it must be at least 0"):
        Profile(train=Rate(1.0), down=Rate(1.0), up=Rate(1.0), latency_seconds=latency_seconds)


def test_what_was_measured_stays():
    with pytest.raises(AttributeError):
        Rate(1.0).per_second = 2.0
