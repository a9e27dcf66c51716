"""Mean and interval over seeds."""

import random

import pytest

from reproduction.statistics import curve, estimate


def test_interval_is_students():
    found = estimate([1, 2, 3, 4])
    assert (found.mean, found.count) == (2.5, 4)
    assert found.half_width == pytest.approx(3.182446 * 1.290994 / 2, rel=1e-6)  # t of 3 degrees, from a table
    assert (found.low, found.high) == (found.mean - found.half_width, found.mean + found.half_width)


def test_one_value_has_no_interval():
    found = estimate([7])
    assert (found.mean, found.half_width, found.low, found.high) == (7, None, 7, 7)


def test_equal_values_are_known_exactly():
    assert estimate([3, 3, 3]).half_width == 0


def test_the_interval_holds_the_true_mean_in_95_of_100_cases():
    chance = random.Random(0)
    cases = [estimate([chance.gauss(5, 2) for _ in range(6)]) for _ in range(2000)]
    held = sum(case.low <= 5 <= case.high for case in cases) / len(cases)
    assert held == pytest.approx(0.95, abs=0.015)


def test_curve_is_in_order_and_skips_what_is_missing():
    rows = [{"k": 2, "v": 1.0}, {"k": 1, "v": 5}, {"k": 2, "v": 3.0}, {"k": 3, "v": None}]
    assert [(place, found.mean, found.count) for place, found in curve(rows, x="k", y="v")] == [(1, 5, 1), (2, 2, 2)]
