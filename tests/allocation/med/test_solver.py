"""MED's solver against trying everything, and its promises about bounds and time."""

import itertools
import math
import random

import numpy as np
import pytest

from paceline.allocation.med import GreedyProblem, MedProblem, MmttProblem
from paceline.allocation.med.instance import Instance
from paceline.allocation.med.limit import Limit
from paceline.allocation.med.solver import solve
from tests.allocation.med.instances import instance_of, judge, small_fields, try_all

NUM_BATCHES, BATCH = 10, 24


@pytest.mark.parametrize(
    "batch", [*range(5), *(pytest.param(batch, marks=pytest.mark.long) for batch in range(5, NUM_BATCHES))]
)
def test_small_problems_are_solved_exactly(batch):
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        problem = MedProblem(**small_fields(random.Random(seed)))
        reply, best = problem.solve(), try_all(problem)
        if best is None:
            assert (reply.status, reply.objective, reply.allocation) == ("infeasible", None, []), seed
            assert reply.reason
            assert "not proven" not in reply.reason
        else:
            assert reply.status == "optimal", (seed, reply.reason)
            assert float(judge(problem, reply)) == pytest.approx(reply.objective, rel=1e-9)
            assert reply.objective == pytest.approx(float(best), rel=1e-7, abs=1e-12), seed
            assert reply.bound == reply.objective


@pytest.mark.parametrize("budget", [math.inf, 0.7])
@pytest.mark.parametrize("min_shards", [0, 1, 2])
def test_whenever_it_is_stopped_the_bound_holds_and_the_plan_is_one(min_shards, budget):
    instance = instance_of(np.random.default_rng(3), num_tasks=3, num_learners=9, min_shards=min_shards, budget=budget)
    best = solve(instance)
    assert best.is_proven
    for num_steps in (1, 2, 5, 10, 20, 40, 80, 160):
        stopped = solve(instance, Limit(max_steps=num_steps))
        assert stopped.bound <= best.plan.objective * (1 + 1e-7)
        if stopped.plan is not None:
            assert stopped.plan.objective >= best.plan.objective * (1 - 1e-7)
            assert_plan(instance, stopped.plan)


def assert_plan(instance, plan):
    """All constraints, by loops."""
    for task in range(instance.num_tasks):
        assert sum(plan.counts[task]) == instance.shards[task]
        for learner, count in enumerate(plan.counts[task]):
            if count:
                assert count >= max(1, instance.min_shards)
                seconds = instance.fixed_seconds[task, learner] + count * instance.unit_seconds[task, learner]
                assert seconds <= instance.deadlines[task] * (1 + 2e-9)
    for learner in range(instance.num_learners):
        num_tasks = sum(plan.counts[task][learner] > 0 for task in range(instance.num_tasks))
        assert num_tasks == 1 if instance.min_shards else num_tasks <= 1
    cost = sum(instance.prices[k] * plan.counts[task][k] for task, k in np.ndindex(plan.counts.shape))
    assert cost <= instance.budget * (1 + 2e-9)


@pytest.mark.parametrize(("num_tasks", "num_learners"), [(3, 12), (8, 60), (5, 250)])
def test_larger_problems_keep_all_constraints_and_come_close(num_tasks, num_learners):
    instance = instance_of(np.random.default_rng(0), num_tasks=num_tasks, num_learners=num_learners)
    solution = solve(instance, Limit(max_steps=400))
    assert_plan(instance, solution.plan)
    assert 0.9 * solution.plan.objective <= solution.bound <= solution.plan.objective * (1 + 1e-7)


@pytest.mark.parametrize("budget", [math.inf, 0.7])
def test_a_limit_of_steps_gives_the_same_plan_however_slow_the_machine_is(budget):
    instance = instance_of(np.random.default_rng(8), num_tasks=5, num_learners=40, budget=budget)
    hours = itertools.count(step=3600.0)
    fast, slow = solve(instance, Limit(max_steps=300)), solve(instance, Limit(max_steps=300, clock=lambda: next(hours)))
    assert not fast.is_proven
    assert np.array_equal(fast.plan.counts, slow.plan.counts)
    assert fast.bound == slow.bound


def test_more_of_anything_is_no_worse():
    instance = instance_of(np.random.default_rng(5), num_tasks=3, num_learners=8, min_shards=0, budget=0.8)
    base = solve(instance).plan.objective

    def changed(**fields):
        return solve(Instance(**{**vars(instance), **fields})).plan.objective

    assert changed(budget=instance.budget * 1.1) <= base * (1 + 1e-9)
    assert changed(unit_seconds=instance.unit_seconds * 0.9) <= base * (1 + 1e-9)
    assert changed(shards=instance.shards - 1) <= base * (1 + 1e-9)
    assert changed(min_shards=1) >= base * (1 - 1e-9)


def test_mmtt_is_med_with_one_state_and_greedy_is_never_better():
    num_compared = 0
    for seed in range(40):
        fields = small_fields(random.Random(seed))
        problem = MedProblem(**fields)
        greedy, best = GreedyProblem(**fields).solve(), problem.solve()
        if greedy.status != "infeasible":
            num_compared += 1
            assert float(judge(problem, greedy)) == pytest.approx(greedy.objective, rel=1e-9)
            assert greedy.bound <= best.objective * (1 + 1e-7) <= greedy.objective * (1 + 2e-7)
        if all(len(learner.states) == 1 for learner in fields["learners"]):
            assert MmttProblem(**fields).solve() == best
    assert num_compared > 10


def test_identical_learners_are_no_trouble():
    same = Instance(
        fixed_seconds=np.full((3, 12), 1.0),
        unit_seconds=np.full((3, 12), 0.5),
        deadlines=np.full(3, 60.0),
        shards=np.array([30.0, 30.0, 30.0]),
        prices=np.ones(12),
        budget=90.0,
        min_shards=1,
    )
    solution = solve(same)
    assert solution.is_proven
    # four learners each, the busiest of whom has 8 shards
    assert solution.plan.objective == pytest.approx(3 * (1.0 + 0.5 * 8))


def test_steps_that_show_no_curvature_are_not_divided_by():
    """Nothing but the fourth learner can do anything here, so prices hardly matter: an ascent stands still."""
    units = [[100.0, 100.0, 100.0, 1e-4, 100.0], *([[1e3, 1e3, 1e3, 1e-3, 1e3]] * 2)]
    instance = Instance(
        fixed_seconds=np.array([[0.5] * 5, [0.0] * 5, [0.5] * 5]),
        unit_seconds=np.array(units),
        deadlines=np.array([20.0, 5.0, 1e4]),
        shards=np.array([2.0, 2.0, 2.0]),
        prices=np.array([0.0, 1.0, 3.0, 3.0, 0.0]),
        budget=7.56,
        min_shards=1,
    )
    solution = solve(instance, Limit(max_steps=400))
    assert solution.plan is None or solution.plan.cost <= 7.56
    assert math.isfinite(solution.bound)
