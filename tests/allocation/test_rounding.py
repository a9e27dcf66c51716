import random
from fractions import Fraction

import pytest

from paceline.allocation.rounding import TOLERANCE, split_evenly, units_to_fill, units_within


@pytest.mark.parametrize(
    ("limit", "fixed", "unit", "within", "to_fill"),
    [
        (10.0, 0.0, 3.0, 3, 4),
        (10.0, 1.0, 3.0, 3, 3),  # fits exactly
        (0.3, 0.0, 0.1, 3, 3),  # 0.3 / 0.1 is 2.9999999999999996
        (0.7, 0.1, 0.2, 3, 3),  # (0.7 − 0.1) / 0.2 is 2.9999999999999996
        (10.0, 10.0, 1.0, 0, 0),
        (10.0, 11.0, 1.0, 0, 0),
        (10.0, float("inf"), 1.0, 0, 0),
        (1e15, 0.0, 1e-300, 1000, 1000),
    ],
)
def test_how_many_fit(limit, fixed, unit, within, to_fill):
    assert units_within(limit, fixed_seconds=fixed, unit_seconds=unit, most=1000) == within
    assert units_to_fill(limit, fixed_seconds=fixed, unit_seconds=unit, most=1000) == to_fill


def test_a_multiple_of_what_is_to_be_done_is_never_lost():
    chance = random.Random(0)
    for _ in range(5000):
        unit, fixed, count = 10 ** chance.uniform(-6, 3), 10 ** chance.uniform(-6, 3), chance.randint(1, 10_000)
        within = units_within(fixed + count * unit, fixed_seconds=fixed, unit_seconds=unit, most=10**6)
        assert within >= count
        # and what is said to fit does, but for the tolerance, in exact arithmetic
        limit = Fraction(fixed + count * unit) * (1 + Fraction(2 * TOLERANCE))
        assert Fraction(fixed) + within * Fraction(unit) <= limit


@pytest.mark.parametrize(
    ("total", "caps", "parts"),
    [
        (7, [9, 9, 9], [3, 2, 2]),
        (8, [9, 9, 9], [3, 3, 2]),
        (2, [9, 9, 9], [1, 1, 0]),
        (9, [1, 9, 9], [1, 4, 4]),
        (10, [1, 9, 9], [1, 5, 4]),
        (7, [5, 9, 9], [3, 2, 2]),  # a cap that does not bind changes nothing
        (9, [0, 2, 2], [0, 2, 2]),
        (5, [], []),
        (0, [3, 3], [0, 0]),
    ],
)
def test_even_parts(total, caps, parts):
    assert split_evenly(total, caps) == parts
