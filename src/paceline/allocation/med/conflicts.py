"""Why there is no plan: the first constraint that cannot be met even if others are let go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from paceline.allocation.least_time import least_time, suggest_seconds
from paceline.allocation.med.instance import Instance
from paceline.allocation.rounding import TOLERANCE


def find_conflict(instance: Instance, tasks: Sequence[str], learners: Sequence[str]) -> str | None:
    """Describe the constraint, with the names of whom it is about; None if no relaxation shows one: no proof."""
    return next(_conflicts(instance, tasks, learners), None)


def _conflicts(instance: Instance, tasks: Sequence[str], learners: Sequence[str]) -> Iterator[str]:
    if instance.num_learners < instance.num_tasks:
        yield (
            f"{instance.num_tasks} tasks need as many learners, since each is in one task at most; "
            f"there are {instance.num_learners}"
        )
    most = instance.capacities(np.arange(instance.num_tasks), instance.deadlines)
    sums = most.sum(axis=1)
    for task in np.flatnonzero(sums < instance.shards).tolist():
        yield (
            f"task {tasks[task]!r}: all learners together can do {sums[task]:.0f} of its {instance.shards[task]:.0f} "
            f"shards by its deadline_seconds, {instance.deadlines[task]:g}; least that works for it alone: "
            f"{suggest_seconds(_least_seconds(instance, task))}"
        )
    least = 0 if instance.may_idle else instance.least
    needed, total = least * instance.num_learners, float(instance.shards.sum())
    if needed > total:
        yield (
            f"{instance.num_learners} learners × min_shards, {least}, is {needed}, "
            f"more than the shards of all tasks, {total:.0f}"
        )
    room = float((instance.shards // instance.least).sum())
    if least and room < instance.num_learners:
        yield (
            f"of min_shards, {least}, the shards of the tasks are enough for {room:.0f} learners, "
            f"each in one task; there are {instance.num_learners}"
        )
    for learner in np.flatnonzero(~(most > 0).any(axis=0) & (least > 0)).tolist():
        yield f"learner {learners[learner]!r} can do min_shards, {least}, of no task by its deadline_seconds"
    # even if a learner could take shards of all tasks, up to the most that it can of one
    order = np.argsort(instance.prices, kind="stable")
    more = most.max(axis=0)[order] - least
    taken = np.clip(total - needed - (np.cumsum(more) - more), 0.0, more)
    cheapest = float((instance.prices[order] * (least + taken)).sum())
    if cheapest > instance.budget * (1 + TOLERANCE):
        yield (
            f"budget, {instance.budget:g}, is at least {cheapest - instance.budget:.6g} short: "
            f"the cheapest learners would cost {cheapest:.6g}, as much as each can do by the deadlines"
        )


def _least_seconds(instance: Instance, task: int) -> float:
    """Return in how many seconds all learners together can do a task."""

    def works(seconds: float) -> bool:
        most = instance.capacities(np.array([task]), np.array([seconds]))
        return bool(most.sum() >= instance.shards[task])

    return least_time(works, float(instance.deadlines[task]))
