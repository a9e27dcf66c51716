"""Why there is no plan: the first constraint that cannot be met even if others are let go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.allocation.med.instance import Floats, Instance
from paceline.allocation.rounding import TOLERANCE


def find_conflict(instance: Instance, tasks: Sequence[str], learners: Sequence[str]) -> str | None:
    """The constraint, with the names of whom it is about; None if no relaxation shows one, which proves nothing."""
    most = instance.capacities(np.arange(instance.num_tasks), instance.deadlines)
    return (
        _too_few_learners(instance)
        or _deadline_of_one(instance, most, tasks)
        or _too_high_minimum(instance, most, learners)
        or _short_budget(instance, most)
    )


def _too_few_learners(instance: Instance) -> str | None:
    if instance.num_learners >= instance.num_tasks:
        return None
    return (
        f"{instance.num_tasks} tasks need as many learners, since each is in one task at most; "
        f"there are {instance.num_learners}"
    )


def _deadline_of_one(instance: Instance, most: Floats, tasks: Sequence[str]) -> str | None:
    sums = most.sum(axis=1)
    for task in np.flatnonzero(sums < instance.shards).tolist():
        return (
            f"task {tasks[task]!r}: all learners together can do {sums[task]:.0f} of its {instance.shards[task]:.0f} "
            f"shards by its deadline_seconds, {instance.deadlines[task]:g}"
        )
    return None


def _too_high_minimum(instance: Instance, most: Floats, learners: Sequence[str]) -> str | None:
    if instance.may_idle:
        return None
    needed, total = instance.least * instance.num_learners, instance.shards.sum()
    if needed > total:
        return (
            f"{instance.num_learners} learners × min_shards, {instance.least}, is {needed}, "
            f"more than the shards of all tasks, {total:.0f}"
        )
    room = float((instance.shards // instance.least).sum())
    if room < instance.num_learners:
        return (
            f"of min_shards, {instance.least}, the shards of the tasks are enough for {room:.0f} learners, "
            f"each in one task; there are {instance.num_learners}"
        )
    for learner in np.flatnonzero(~(most > 0).any(axis=0)).tolist():
        return f"learner {learners[learner]!r} can do min_shards, {instance.least}, of no task by its deadline_seconds"
    return None


def _short_budget(instance: Instance, most: Floats) -> str | None:
    """Even if a learner could take shards of all tasks, up to the most that it can of one."""
    least = 0.0 if instance.may_idle else float(instance.least)
    order = np.argsort(instance.prices, kind="stable")
    more = most.max(axis=0)[order] - least
    left = float(instance.shards.sum()) - least * instance.num_learners
    taken = np.clip(left - (np.cumsum(more) - more), 0.0, more)
    cheapest = float((instance.prices[order] * (least + taken)).sum())
    if cheapest <= instance.budget * (1 + TOLERANCE):
        return None
    return (
        f"budget, {instance.budget:g}, is at least {cheapest - instance.budget:.6g} short: "
        f"the cheapest learners would cost {cheapest:.6g}, as much as each can do by the deadlines"
    )
