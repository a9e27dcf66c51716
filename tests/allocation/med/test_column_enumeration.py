"""The list of sets is the same however it is cut into blocks."""

import math

import numpy as np
import pytest

from paceline.allocation.med import listing
from paceline.allocation.med.cells import Cells
from paceline.allocation.med.dual import Bound, improve
from paceline.allocation.med.greedy import earliest_ends
from paceline.allocation.med.sharp import sharpen, to_moments
from paceline.allocation.med.solver import solve
from paceline.allocation.med.start import spread
from tests.allocation.med.instances import instance_of


@pytest.mark.parametrize("budget", [math.inf, 0.7])
def test_blocks_make_no_difference(monkeypatch, budget):
    instance = instance_of(np.random.default_rng(1), num_tasks=3, num_learners=9, budget=budget)
    best = solve(instance).plan.objective * 1.01
    low = earliest_ends(instance)
    bound = Bound(
        value=0.0,
        prices=spread(instance)[1],
        cells=Cells.cover(instance, low, np.minimum(instance.deadlines, best - low.sum() + low), 8),
        parts=np.zeros((3, 9)),
    )
    bound = improve(bound, best, max_climbs=10, is_over=lambda: False)
    sharp, covers = sharpen(to_moments(bound, best), best, max_steps=40, is_over=lambda: False)

    def listed(max_sets=10_000, is_over=lambda: False):
        return listing.list_sets(sharp, covers, best, part=1.0, max_sets=max_sets, is_over=is_over)

    def keys(choices):
        rows = zip(choices.tasks, choices.members, choices.targets, choices.costs, strict=True)
        return sorted((int(task), own.tobytes(), round(target, 9), round(cost, 9)) for task, own, target, cost in rows)

    whole = keys(listed())
    assert len(whole) > 3
    monkeypatch.setattr(listing, "_BLOCK", 1)
    assert keys(listed()) == whole
    assert listed(max_sets=0) is None
    assert listed(is_over=lambda: True) is None
