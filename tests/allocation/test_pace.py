import random

import pytest

from paceline.allocation.pace import estimate


def pace_of(past, optimism=0.8, caution=2.2):
    return estimate(past, optimism=optimism, caution=caution)


def noisy(level, count, seed=0):
    """Evenly spread over ±20 %, in random order."""
    values = [level * (0.8 + 0.4 * (n + 0.5) / count) for n in range(count)]
    random.Random(seed).shuffle(values)
    return values


def test_fast_and_slow_sides_of_the_spread():
    past = noisy(1.0, 25)
    pace = pace_of(past)
    assert 0.8 < pace.fast < 0.95 < pace.middle < 1.1 < max(past) < pace.slow < 1.5
    assert sum(value >= pace.fast for value in past) == pytest.approx(0.8 * 25, abs=1)
    assert pace_of(past, optimism=0.5).fast == pace.middle
    assert pace_of(past, caution=1.0).slow < pace.slow


def test_one_accident_changes_little_but_the_next_round():
    usual = pace_of(noisy(1.0, 25))
    just_now = pace_of([*noisy(1.0, 25), 10.0])
    assert just_now.slow > 10
    assert just_now.middle == pytest.approx(usual.middle, rel=0.05)
    long_ago = pace_of([*noisy(1.0, 10), 10.0, *noisy(1.0, 15, seed=1)])
    assert long_ago.slow == pytest.approx(usual.slow, rel=0.15)
    assert long_ago.fast == pytest.approx(usual.fast, rel=0.05)


@pytest.mark.parametrize("level", [0.3, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("num_since", [2, 3, 10, 20])
def test_a_change_for_good_is_believed_after_two_rounds(level, num_since):
    before = pace_of(noisy(1.0, 20))
    after = pace_of([*noisy(1.0, 20), *noisy(level, num_since, seed=1)])
    for was, now in zip(before, after, strict=True):
        assert now / was == pytest.approx(level, rel=0.25)
