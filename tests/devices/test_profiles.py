"""Profiles: what was measured, and nothing that cannot have been."""

import msgspec

from paceline.devices import Profile, Rate


def test_a_profile_travels_as_it_is():
    profile = Profile(train=Rate(900.0, 0.1), down=Rate(1e6), up=Rate(2e5, 0.3), latency_seconds=0.02)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(profile), type=Profile) == profile
    assert msgspec.convert(msgspec.to_builtins(profile), Profile) == profile
