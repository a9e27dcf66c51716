"""Problems of several tasks: drawn at random, judged with fractions, and answered by trying everything."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np

from paceline.allocation.med import MedLearner, MedState, MedTask
from paceline.allocation.med.instance import Instance

SLACK = 1 + Fraction(2, 10**9)
"""By which a deadline or the budget may be exceeded: twice the tolerance that the project has for all limits."""


def task(number, chance, *, most_shards):
    return MedTask(
        name=f"t{number}",
        shards=chance.randint(1, most_shards),
        deadline_seconds=chance.choice([chance.uniform(2, 12), float(chance.randint(4, 20)), 60.0]),
        model_bytes=chance.choice([0, 1000, chance.uniform(0, 3000)]),
        shard_bytes=chance.choice([0, 500, chance.uniform(0, 1000)]),
        iterations=chance.choice([1, 1, 2]),
    )


def learner(number, tasks, chance):
    weights = [chance.randint(1, 4) for _ in range(chance.randint(1, 3))]
    return MedLearner(
        name=f"w{number}",
        price=chance.choice([0.0, 0.5, 1.0, chance.uniform(0.1, 1.5)]),
        states=[
            MedState(
                probability=weight / sum(weights),
                bytes_per_second=chance.choice([1000.0, chance.uniform(500, 4000)]),
                shards_per_second={own.name: chance.choice([1.0, 2.0, chance.uniform(0.3, 3)]) for own in tasks},
            )
            for weight in weights
        ],
    )


def small_fields(chance: random.Random) -> dict:
    """Fields of a problem of up to five learners and three tasks; about a third have no solution."""
    num_tasks, num_learners = chance.choice([(1, 3), (1, 4), (2, 2), (2, 3), (2, 4), (2, 5), (3, 3), (3, 4), (3, 5)])
    tasks = [task(number, chance, most_shards=7 if num_learners < 5 else 5) for number in range(num_tasks)]
    total = sum(own.shards for own in tasks)
    return {
        "budget": chance.choice([None, total * chance.uniform(0.3, 0.9), total * chance.uniform(0.2, 1.2)]),
        "min_shards": chance.choice([0, 0, 1, 1, 1, 2]),
        "tasks": tasks,
        "learners": [learner(number, tasks, chance) for number in range(num_learners)],
    }


def seconds(problem, task, learner, shards) -> Fraction:
    """δ, exactly."""
    total = Fraction(0)
    for state in learner.states:
        rate = Fraction(state.shards_per_second[task.name])
        moved = (2 * Fraction(task.model_bytes) + Fraction(task.shard_bytes) * shards) / Fraction(
            state.bytes_per_second
        )
        total += Fraction(state.probability) * (moved + Fraction(task.iterations) * shards / rate)
    return total


def judge(problem, reply) -> Fraction:
    """The objective of a reply, after all constraints were found kept; with fractions, never the solver's numbers."""
    tasks = {task.name: task for task in problem.tasks}
    learners = {learner.name: learner for learner in problem.learners}
    assert len({share.learner for share in reply.allocation}) == len(reply.allocation)
    handed_out = dict.fromkeys(tasks, 0)
    ends = dict.fromkeys(tasks, Fraction(0))
    cost = Fraction(0)
    for share in reply.allocation:
        assert isinstance(share.shards, int)
        assert share.shards >= max(1, problem.min_shards)
        task = tasks[share.task]
        assert share.iterations == task.iterations
        took = seconds(problem, task, learners[share.learner], share.shards)
        assert took <= Fraction(task.deadline_seconds) * SLACK
        ends[share.task] = max(ends[share.task], took)
        handed_out[share.task] += share.shards
        cost += share.shards * Fraction(learners[share.learner].price)
    assert handed_out == {name: task.shards for name, task in tasks.items()}
    if problem.min_shards > 0:
        assert {share.learner for share in reply.allocation} == set(learners)
    if problem.budget is not None:
        assert cost <= Fraction(problem.budget) * SLACK
    assert abs(float(cost) - reply.cost) <= 1e-6 * (1 + float(cost))
    return sum(ends.values())


def try_all(problem) -> Fraction | None:
    """The least objective over all assignments and all ways to share out; None if there is no way."""
    num_tasks, num_learners = len(problem.tasks), len(problem.learners)
    choices = range(-1, num_tasks) if problem.min_shards == 0 else range(num_tasks)
    options = {
        (task, members): _ways(problem, task, members)
        for task in range(num_tasks)
        for size in range(1, num_learners + 1)
        for members in itertools.combinations(range(num_learners), size)
    }
    budget = None if problem.budget is None else Fraction(problem.budget) * (1 + Fraction(1, 10**9))
    best = None
    for assignment in itertools.product(choices, repeat=num_learners):
        sets = [tuple(k for k, own in enumerate(assignment) if own == task) for task in range(num_tasks)]
        if not all(sets):
            continue
        sums = [(Fraction(0), Fraction(0))]
        for task, members in enumerate(sets):
            own = options[task, members]
            sums = _pareto([(end + more, cost + paid) for end, cost in sums for more, paid in own])
        for end, cost in sums:
            if (budget is None or cost <= budget) and (best is None or end < best):
                best = end
    return best


def _ways(problem, number, members):
    """Time and cost of all ways that could be best to share a task's shards among learners, who all get some."""
    task, least = problem.tasks[number], max(1, problem.min_shards)
    deadline = Fraction(task.deadline_seconds) * (1 + Fraction(1, 10**9))
    took = {
        (k, shards): seconds(problem, task, problem.learners[k], shards)
        for k in members
        for shards in range(least, task.shards + 1)
    }
    ways = [(0, Fraction(0), Fraction(0))]
    for k in members:
        price = Fraction(problem.learners[k].price)
        ways = [
            (done + shards, max(end, took[k, shards]), cost + shards * price)
            for done, end, cost in ways
            for shards in range(least, task.shards - done + 1)
            if took[k, shards] <= deadline
        ]
    return _pareto([(end, cost) for done, end, cost in ways if done == task.shards])


def _pareto(points):
    kept, cheapest = [], None
    for end, cost in sorted(points):
        if cheapest is None or cost < cheapest:
            kept.append((end, cost))
            cheapest = cost
    return kept


def instance_of(chance, *, num_tasks, num_learners, min_shards=1, budget=math.inf) -> Instance:
    """Learners and tasks that differ, with time for all; the budget is per shard."""
    shards = np.ceil(chance.uniform(3, 12, num_tasks) * num_learners / num_tasks)
    fixed = chance.uniform(0.2, 3.0, (num_tasks, num_learners))
    unit = chance.uniform(0.5, 2.5, (num_tasks, num_learners))
    return Instance(
        fixed_seconds=fixed,
        unit_seconds=unit,
        deadlines=np.full(num_tasks, 200.0),
        shards=shards,
        prices=chance.uniform(0.1, 1.5, num_learners),
        budget=budget * shards.sum(),
        min_shards=min_shards,
    )
