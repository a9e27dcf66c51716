"""The smooth bound: its slopes, and that climbing it makes the real one better."""

import itertools
import math

import numpy as np
import pytest

from paceline.allocation.med.cells import Cells
from paceline.allocation.med.climb import _Hill, climb
from paceline.allocation.med.dual import Bound, cheapest_rows, improve
from paceline.allocation.med.greedy import earliest_ends
from paceline.allocation.med.solver import solve
from paceline.allocation.med.start import spread
from tests.allocation.med.instances import instance_of


def start(*, budget=math.inf, min_shards=1):
    instance = instance_of(np.random.default_rng(4), num_tasks=3, num_learners=10, min_shards=min_shards, budget=budget)
    low = earliest_ends(instance)
    cells = Cells.cover(instance, low, 4 * low, 12)
    prices = spread(instance)[1]
    return cheapest_rows(cells, prices)[0], prices


@pytest.mark.parametrize("budget", [math.inf, 0.7])
def test_slopes_are_those_of_the_value(budget):
    cells, prices = start(budget=budget)
    hill = _Hill(cells, prices, 0.5)
    point = hill.start + 0.1
    _, slope = hill.at(point)
    for place in range(0, len(point), 7):
        change = np.zeros(len(point))
        change[place] = 0.01
        rise = (hill.at(point + change)[0] - hill.at(point - change)[0]) / 0.02
        assert slope[place] == pytest.approx(rise, rel=0.02, abs=0.02)


def test_a_climb_stops_at_its_goal_and_when_the_time_is_over():
    cells, prices = start()
    reads = itertools.count()
    late = climb(cells, prices, heat=0.1, goal=1e9, num_steps=50, is_over=lambda: next(reads) >= 3)
    assert next(reads) == 4
    assert late.parts.shape == (3, 10)
    stopped = climb(cells, prices, heat=0.1, goal=-1e9, num_steps=50, is_over=lambda: False)
    assert stopped.prices.learners == pytest.approx(prices.learners)


@pytest.mark.parametrize("budget", [math.inf, 0.7])
@pytest.mark.parametrize("min_shards", [0, 1])
def test_the_bound_gets_better_and_stays_one(min_shards, budget):
    cells, prices = start(budget=budget, min_shards=min_shards)
    best = solve(cells.instance)
    assert best.is_proven
    bound = Bound(value=0.0, prices=prices, cells=cells, parts=np.zeros((3, 10)))
    limit = best.plan.objective * 1.5
    values = []
    for _ in range(4):
        bound = improve(bound, limit, max_climbs=3, is_over=lambda: False)
        values.append(bound.value)
    assert values == sorted(values)
    assert 0.85 * best.plan.objective < values[-1] <= best.plan.objective * (1 + 1e-9)
