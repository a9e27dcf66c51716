"""The state of an open round: figures of who took part, the same in whatever order they came."""

import random

import pytest
import torch

from paceline.allocation import Allocation
from paceline.learning.averaging import UpdateValidator
from paceline.learning.shards import ShardSampler
from paceline.topologies.parallel import prepared as prepared_module
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.rounds import OpenRound, Share
from tests.topologies.parallel.runs import small_job


def round_of(arrivals, late=(), allocation=None):
    shares = {name: Share([[0]], 1, 10, 1) for name in (*arrivals, *late)}
    validator = UpdateValidator({"w": torch.zeros(1)})
    return OpenRound(1, 0.0, 5.0, validator, set(), allocation=allocation, shares=shares, arrivals=arrivals)


def test_occupancy_is_the_time_until_updates_came():
    allocation = {name: Allocation(1, 1) for name in ("a", "b", "c", "idle")}
    opened = round_of({"a": 1.0, "b": 3.0}, late=("c",), allocation=allocation)
    assert opened.occupancy(4.0) == pytest.approx((1 + 3 + 4 + 0) / 16)
    assert round_of({}).occupancy(4.0) == 0.0


def test_occupancy_is_the_same_to_the_last_bit_whoever_came_first():
    """Sums of floats depend on their order, and that of a set on the process: virtual runs would not repeat."""
    chance = random.Random(0)
    arrivals = {f"device-{number}": 10 ** chance.uniform(-12, 0) for number in range(60)}
    expected = sum(arrivals[name] for name in sorted(arrivals)) / (1.0 * 60)
    for _ in range(3):
        shuffled = dict(chance.sample(list(arrivals.items()), 60))
        assert round_of(shuffled).occupancy(1.0) == expected
        assert round_of(shuffled, allocation={"device-7": Allocation(1, 1)}).occupancy(1.0) == expected


def test_no_more_shards_are_served_than_a_message_holds(monkeypatch):
    prepared = prepare_job(small_job())
    monkeypatch.setattr(prepared_module, "MAX_SERVED_SHARDS", 3)
    share = prepared.share(ShardSampler(prepared.num_served_shards, (0,)), 10, 2)
    assert (share.num_shards, len(share.portions[0]), share.num_samples, share.local_epochs) == (3, 3, 96, 2)
