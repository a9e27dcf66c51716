"""What is told of the shares of a cycle."""

import itertools
import random

import pytest

from paceline.allocation import AllocatedShare
from paceline.allocation.cycle import average_staleness, staleness


def shares(*local_epochs):
    return [AllocatedShare(learner=f"w{n}", samples=1, iterations=count) for n, count in enumerate(local_epochs)]


def test_average_staleness_is_that_of_all_pairs():
    chance = random.Random(0)
    for size in (2, 3, 4, 10, 57):
        local_epochs = [chance.randint(0, 20) for _ in range(size)]
        pairs = [abs(one - other) for one, other in itertools.combinations(local_epochs, 2)]
        assert average_staleness(shares(*local_epochs)) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
        assert staleness(shares(*local_epochs)) == max(pairs)


def test_one_alone_is_not_stale():
    assert average_staleness(shares(7)) == 0.0
    assert staleness(shares(7)) == 0
