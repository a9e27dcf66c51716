"""The least time that works, and the least deadline of each policy."""

import math

import msgspec
import pytest

from paceline import allocation
from paceline.allocation import Candidate, RoundTerms
from paceline.allocation.least_time import least_time, suggest_seconds
from paceline.devices.profiles import Profile, Rate

TERMS = RoundTerms(
    deadline_seconds=0.1, local_epochs=2, model_bytes=100_000, shard_bytes=2_000, shard_samples=50, num_shards=40
)
PROFILE = Profile(train=Rate(100.0), down=Rate(1e6), up=Rate(5e5), latency_seconds=0.01)
NEEDED_SECONDS = 2 * 0.01 + 0.1 + 0.2 + 0.002 + 1.0  # latency, model down and up, a shard down, two passes over it


def test_the_least_time_is_found_to_a_millionth():
    assert least_time(lambda seconds: seconds >= 7.3, 0.001) == pytest.approx(7.3, rel=2e-6)
    assert least_time(lambda seconds: True, 3.0) == 3.0
    assert least_time(lambda seconds: False, 3.0, most=100) == math.inf
    assert least_time(lambda seconds: seconds >= 90, 3.0, most=100) == pytest.approx(90)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.031, "0.035 s"), (0.89, "0.98 s"), (0.91, "1.1 s"), (5.0, "5.5 s"), (1234.0, "1400 s")]
)
def test_suggestions_are_rounded_up_with_some_headroom(seconds, text):
    assert suggest_seconds(seconds) == text


@pytest.mark.parametrize("policy", ["dab", "adaptive-dab", "csa", "sync", "eta"])
def test_each_policy_knows_its_least_deadline(policy):
    found, candidate = allocation.from_config({"policy": policy}), Candidate(name="pi", profile=PROFILE)
    terms = TERMS if policy in ("dab", "adaptive-dab", "eta") else msgspec.structs.replace(TERMS, local_epochs=1)
    least = found.least_deadline_seconds(terms, candidate)
    needed = NEEDED_SECONDS if terms is TERMS else NEEDED_SECONDS - 0.5
    assert needed * 0.999 <= least <= needed * (1.1 if policy == "adaptive-dab" else 1.001)  # it keeps a margin
    longer = msgspec.structs.replace(terms, deadline_seconds=least * 1.01)
    assert found.allocate(longer, [candidate])[0].num_shards >= 1


def test_nothing_is_suggested_where_nothing_helps_or_is_known():
    nothing = Candidate(name="pi", profile=PROFILE, max_shards=0)
    assert allocation.DabAllocation().least_deadline_seconds(TERMS, nothing) == math.inf
    assert allocation.EqualAllocation().least_deadline_seconds(TERMS, Candidate(name="pi")) == math.inf
