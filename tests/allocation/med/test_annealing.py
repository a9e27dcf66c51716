"""The walk over targets, and the assignments that come of it."""

import itertools
import math

import numpy as np
import pytest

from paceline.allocation.med.aim import Aim
from paceline.allocation.med.plans import settle
from paceline.allocation.med.start import spread
from tests.allocation.med.instances import instance_of


def steps(num_steps):
    """A progress that ends after so many looks."""
    looks = itertools.count()
    return lambda: next(looks) / num_steps


@pytest.mark.parametrize(("num_tasks", "num_learners"), [(1, 6), (4, 40), (6, 120)])
def test_a_walk_from_the_first_plan_leads_to_a_better_one(num_tasks, num_learners):
    instance = instance_of(np.random.default_rng(2), num_tasks=num_tasks, num_learners=num_learners)
    first = settle(instance, spread(instance)[0])
    aim = Aim(instance, first, 0.0, np.random.default_rng(0))
    aim.walk(steps(600))
    plans = [settle(instance, aim.assign(slack)) for slack in (0.0, 0.001, 0.01)]
    found = min(plan.objective for plan in plans if plan is not None)
    if num_tasks == 1:
        assert found == first.objective
    else:
        assert found < first.objective


def test_the_same_chance_gives_the_same_walk():
    instance = instance_of(np.random.default_rng(3), num_tasks=4, num_learners=30, budget=0.8)
    plan = settle(instance, spread(instance)[0])

    def tasks():
        aim = Aim(instance, plan, 0.01, np.random.default_rng(7))
        aim.walk(steps(100))
        return aim.assign(0.0).tolist()

    assert tasks() == tasks()
    assert set(tasks()) <= set(range(4))
    assert math.isfinite(plan.objective)
