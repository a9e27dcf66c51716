"""Staleness of shares."""

import itertools
import random

import pytest

from paceline.allocation import AllocatedShare
from paceline.allocation.staleness import average_staleness, staleness


def test_average_staleness_is_that_of_all_pairs():
    chance = random.Random(0)
    for size in (1, 2, 3, 4, 10, 57):
        local_epochs = [chance.randint(0, 20) for _ in range(size)]
        pairs = [abs(one - other) for one, other in itertools.combinations(local_epochs, 2)] or [0]
        shares = [AllocatedShare(learner=f"w{n}", samples=1, iterations=count) for n, count in enumerate(local_epochs)]
        assert average_staleness(shares) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
        assert staleness(shares) == max(pairs)
