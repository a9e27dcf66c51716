"""The smooth bound: its gradient, and that ascending it makes the real one better."""

import math

import numpy as np
import pytest

from paceline.allocation.med import frank_wolfe
from paceline.allocation.med.greedy import earliest_ends
from paceline.allocation.med.intervals import Intervals
from paceline.allocation.med.lagrangian import Bound, cheapest_rows, improve
from paceline.allocation.med.limit import Limit
from paceline.allocation.med.smooth_dual import SmoothDual, Turn, ascend
from paceline.allocation.med.solver import solve
from tests.allocation.med.instances import instance_of


def start(*, budget=math.inf, min_shards=1):
    instance = instance_of(np.random.default_rng(4), num_tasks=3, num_learners=10, min_shards=min_shards, budget=budget)
    low = earliest_ends(instance)
    prices = frank_wolfe.assign(instance)[1]
    return cheapest_rows(Intervals.cover(instance, low, 4 * low, 12), prices)[0], prices


@pytest.mark.parametrize("budget", [math.inf, 0.7])
def test_the_gradient_is_that_of_the_value(budget):
    dual = SmoothDual(*start(budget=budget), 0.5)
    point = dual.start + 0.1
    _, gradient = dual.at(point)
    for place in range(0, len(point), 7):
        change = np.zeros(len(point))
        change[place] = 0.01
        slope = (dual.at(point + change)[0] - dual.at(point - change)[0]) / 0.02
        assert gradient[place] == pytest.approx(slope, rel=0.02, abs=0.02)


def test_an_ascent_stops_at_its_goal_and_at_the_limit():
    intervals, prices = start()
    limit = Limit(max_steps=3)
    _, parts = ascend(intervals, prices, temperature=0.1, goal=1e9, max_steps=50, limit=limit)
    assert limit.is_over
    assert parts.shape == (3, 10)
    stopped, _ = ascend(intervals, prices, temperature=0.1, goal=-1e9, max_steps=50, limit=Limit())
    assert stopped.learners == pytest.approx(prices.learners)


@pytest.mark.parametrize("budget", [math.inf, 0.7])
@pytest.mark.parametrize("min_shards", [0, 1])
def test_the_bound_gets_better_and_stays_one(min_shards, budget):
    intervals, prices = start(budget=budget, min_shards=min_shards)
    best = solve(intervals.instance)
    assert best.is_proven
    bound = Bound(value=0.0, prices=prices, intervals=intervals, parts=np.zeros((3, 10)))
    values = []
    for _ in range(4):
        bound = improve(bound, best.plan.objective * 1.5, max_ascents=3, limit=Limit())
        values.append(bound.value)
    assert values == sorted(values)
    assert 0.85 * best.plan.objective < values[-1] <= best.plan.objective * (1 + 1e-9)


def test_turns_that_are_lost_in_rounding_are_left_out():
    """They would be divided by: the square of the first change is 0, and the second step crosses its change."""
    ones = np.ones(4)
    assert Turn.of(ones, 1e-170 * ones) is None
    assert Turn.of(np.array([1.0, 1.0]), np.array([1e-20, 0.0]) + np.array([1.0, -1.0])) is None
    assert Turn.of(ones, -ones) is None
    assert Turn.of(ones, 2 * ones).curvature == 8
