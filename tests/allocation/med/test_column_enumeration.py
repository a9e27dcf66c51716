"""The columns are the same however the intervals are cut into blocks."""

import math

import numpy as np
import pytest

from paceline.allocation.med import column_enumeration, frank_wolfe
from paceline.allocation.med.greedy import earliest_ends
from paceline.allocation.med.intervals import Intervals
from paceline.allocation.med.lagrangian import Bound, improve
from paceline.allocation.med.limit import Limit
from paceline.allocation.med.solver import solve
from paceline.allocation.med.subgradient import improve_whole, to_moments
from tests.allocation.med.instances import instance_of


@pytest.mark.parametrize("budget", [math.inf, 0.7])
def test_blocks_make_no_difference(monkeypatch, budget):
    instance = instance_of(np.random.default_rng(1), num_tasks=3, num_learners=9, budget=budget)
    best = solve(instance).plan.objective * 1.01
    low = earliest_ends(instance)
    bound = Bound(
        value=0.0,
        prices=frank_wolfe.assign(instance)[1],
        intervals=Intervals.cover(instance, low, np.minimum(instance.deadlines, best - low.sum() + low), 8),
        parts=np.zeros((3, 9)),
    )
    bound = improve(bound, best, max_ascents=10, limit=Limit())
    whole, knapsacks = improve_whole(to_moments(bound, best), best, Limit())

    def enumerated(max_columns=10_000, max_steps=None):
        return column_enumeration.enumerate_columns(
            whole, knapsacks, best, part=1.0, max_columns=max_columns, limit=Limit(max_steps=max_steps)
        )

    def keys(columns):
        rows = zip(columns.tasks, columns.members, columns.targets, columns.costs, strict=True)
        return sorted((int(task), own.tobytes(), round(target, 7), round(cost, 7)) for task, own, target, cost in rows)

    found = keys(enumerated())
    assert len(found) > 3
    monkeypatch.setattr(column_enumeration, "_BLOCK", 1)
    assert keys(enumerated()) == found
    assert enumerated(max_columns=0) is None
    assert enumerated(max_steps=0) is None
