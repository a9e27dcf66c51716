"""The pace of one round; `test_adaptive` shows what comes of accidents and changes."""

import random

import pytest

from paceline.allocation.pace_estimate import estimate


def pace_of(past, optimism=0.8, caution=2.2):
    return estimate(past, optimism=optimism, caution=caution)


def test_fast_and_slow_sides_of_the_spread():
    past = [0.8 + 0.4 * (n + 0.5) / 25 for n in range(25)]
    random.Random(0).shuffle(past)
    pace = pace_of(past)
    assert 0.8 < pace.fast < 0.95 < pace.middle < 1.1 < max(past) < pace.slow < 1.5
    assert sum(value >= pace.fast for value in past) == pytest.approx(0.8 * 25, abs=1)
    assert pace_of(past, optimism=0.5).fast == pace.middle
    assert pace_of(past, caution=1.0).slow < pace.slow
