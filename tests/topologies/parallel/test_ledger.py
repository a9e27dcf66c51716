"""Money of a pool: set aside when a round opens, paid for what was trained, and never more than there is."""

import pytest
import torch

from paceline.learning.averaging import UpdateValidator
from paceline.topologies.parallel.ledger import Ledger
from paceline.topologies.parallel.rounds import OpenRound, Share


def closed_round(delivered, local_epochs=2):
    """A round in which "a" and "b" took 4 shards of 10 samples each; `delivered` is what they trained."""
    shares = {name: Share([[0, 1, 2, 3]], 4, 40, local_epochs) for name in "ba"}
    validator = UpdateValidator({"w": torch.zeros(1)})
    return OpenRound(3, 0.0, 5.0, validator, set(), shares=shares, delivered=delivered)


@pytest.mark.parametrize(
    ("total", "spare", "reserved"),
    [
        (None, 100.0, 110.0),  # without a limit, all that is spare
        (1000.0, 5.0, 15.0),
        (1000.0, 100.0, 20.0),  # as much again at most: other jobs want to be paid, too
        (14.0, 100.0, 14.0),  # and no more than there is
        (10.0, 100.0, 10.0),
    ],
)
def test_what_is_set_aside_is_capped(total, spare, reserved):
    ledger = Ledger(total)
    assert ledger.reserve("job", 10.0, spare=spare)
    assert ledger.reserved("job") == reserved
    assert ledger.left == (float("inf") if total is None else total - reserved)


def test_what_is_set_aside_is_not_there_for_others():
    ledger = Ledger(25.0)
    assert ledger.reserve("a", 10.0)
    assert not ledger.reserve("b", 15.1)
    assert ledger.reserve("b", 15.0 * (1 + 1e-12))  # a sum of many prices is not exact
    assert ledger.left == pytest.approx(0.0, abs=1e-9)


def test_what_was_trained_is_paid_and_the_rest_is_free_again():
    ledger = Ledger(100.0)
    ledger.reserve("job", 20.0, spare=20.0)
    lines = ledger.settle("job", closed_round({"a": 60}), {"a": 2.0, "b": 3.0}, shard_samples=10, at=7.0)
    assert [(line.learner, line.shards, line.price, line.amount) for line in lines] == [
        ("a", 3.0, 2.0, 6.0),  # 60 of the 80 samples of two local epochs
        ("b", 0.0, 3.0, 0.0),
    ]
    assert (ledger.spent, ledger.left, ledger.lines) == (6.0, 94.0, lines)


def test_nobody_is_paid_for_more_than_was_taken():
    (line, _) = Ledger(None).settle("job", closed_round({"a": 80}), {"a": 1.0}, shard_samples=9, at=0.0)
    assert line.amount == 4.0  # the last shard of a dataset may be a small one
