"""The state of an open round, the same in whatever order learners came; and what is paid for it."""

import random

import pytest
import torch

from paceline.allocation import Allocation
from paceline.learning.aggregation import FedAvgAggregation, LimitedCollector
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Layout
from paceline.topologies.parallel.ledger import Ledger
from paceline.topologies.parallel.rounds import OpenRound, Share


def round_of(shares, **state):
    like, method = {"w": torch.zeros(1)}, FedAvgAggregation()
    return OpenRound(
        3,
        0.0,
        5.0,
        UpdateValidator(like),
        method,
        LimitedCollector(method, Layout(like), (), like),
        set(),
        shares=shares,
        **state,
    )


def arrived(arrivals, late=(), allocation=None):
    shares = {name: Share([[0]], 1, 10, 1) for name in (*arrivals, *late)}
    return round_of(shares, arrivals=arrivals, allocation=allocation)


def closed_round(delivered):
    """A round in which "a" and "b" took 4 shards of 10 samples each; `delivered` is what they trained."""
    return round_of({name: Share([[0, 1, 2, 3]], 4, 40, 2) for name in "ba"}, delivered=delivered)


def test_occupancy_is_the_time_until_updates_came():
    allocation = {name: Allocation(1, 1) for name in ("a", "b", "c", "idle")}
    opened = arrived({"a": 1.0, "b": 3.0}, late=("c",), allocation=allocation)
    assert opened.occupancy(4.0) == pytest.approx((1 + 3 + 4 + 0) / 16)
    assert arrived({}).occupancy(4.0) == 0.0


def test_occupancy_is_the_same_to_the_last_bit_whoever_came_first():
    """Sums of floats depend on their order, and that of a set on the process: virtual runs would not repeat."""
    chance = random.Random(0)
    arrivals = {f"device-{number}": 10 ** chance.uniform(-12, 0) for number in range(60)}
    expected = sum(arrivals[name] for name in sorted(arrivals)) / (1.0 * 60)
    for _ in range(3):
        shuffled = dict(chance.sample(list(arrivals.items()), 60))
        assert arrived(shuffled).occupancy(1.0) == expected
        assert arrived(shuffled, allocation={"device-7": Allocation(1, 1)}).occupancy(1.0) == expected


@pytest.mark.parametrize(
    ("total", "spare", "committed"),
    [
        (None, 100.0, 110.0),  # without a limit, all that is spare
        (1000.0, 5.0, 15.0),
        (1000.0, 100.0, 20.0),  # as much again at most: other jobs want to be paid, too
        (14.0, 100.0, 14.0),  # and no more than there is
    ],
)
def test_what_is_committed_is_capped(total, spare, committed):
    ledger = Ledger(total)
    assert ledger.commit("job", 10.0, spare=spare)
    assert ledger.committed("job") == committed
    assert ledger.left == (float("inf") if total is None else total - committed)


def test_what_is_committed_is_not_there_for_others():
    ledger = Ledger(25.0)
    assert ledger.commit("a", 10.0)
    assert not ledger.commit("b", 15.1)
    assert ledger.commit("b", 15.0 * (1 + 1e-12))  # a sum of many prices is not exact
    assert ledger.left == pytest.approx(0.0, abs=1e-9)


def test_what_was_trained_is_paid_and_the_rest_is_free_again():
    ledger = Ledger(100.0)
    ledger.commit("job", 20.0, spare=20.0)
    lines = ledger.settle("job", closed_round({"a": 60}), {"a": 2.0, "b": 3.0}, shard_samples=10, at=7.0)
    assert [(line.learner, line.shards, line.price, line.amount) for line in lines] == [
        ("a", 3.0, 2.0, 6.0),  # 60 of the 80 samples of two local epochs
        ("b", 0.0, 3.0, 0.0),
    ]
    assert (ledger.spent, ledger.left) == (6.0, 94.0)


def test_nobody_is_paid_for_more_than_was_taken():
    (line, _) = Ledger(None).settle("job", closed_round({"a": 80}), {"a": 1.0}, shard_samples=9, at=0.0)
    assert line.amount == 4.0  # the last shard of a dataset may be a small one
