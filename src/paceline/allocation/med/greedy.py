"""Greedy rule: learners one by one to the task that would end last, with no look at money."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from paceline.allocation.med.instance import Floats, Indices, Instance, Plan


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """Result of the rule: a plan, which may cost too much, or the first task that would be late; and a simple bound."""

    plan: Plan | None
    late: int | None
    bound: float


def greedy(instance: Instance) -> Outcome:
    """Plan by the rule."""
    sets = instance.sets_of(assign(instance))
    targets = np.array([instance.fewest_seconds(task, own[None, :])[0] for task, own in enumerate(sets)])
    late = np.flatnonzero(~np.isfinite(targets))
    if late.size:
        return Outcome(plan=None, late=int(late[0]), bound=0.0)
    return Outcome(plan=Plan.of(instance, sets, targets), late=None, bound=float(earliest_ends(instance).sum()))


def assign(instance: Instance) -> Indices:
    """Give every learner a task, the fastest first; a task takes no more learners than it has shards for."""
    tasks = np.zeros(instance.num_learners, dtype=np.intp)
    rates = np.zeros(instance.num_tasks)
    room = instance.shards // instance.least
    for learner in np.argsort(instance.unit_seconds.min(axis=0), kind="stable").tolist():
        with np.errstate(divide="ignore"):
            ends = np.where(room > 0, instance.shards / rates, -np.inf)
        # of several without a learner, the one with the most shards
        last = int(np.lexsort((-instance.shards, -ends))[0])
        tasks[learner] = last
        rates[last] += 1.0 / instance.unit_seconds[last, learner]
        room[last] -= 1
    return tasks


def earliest_ends(instance: Instance) -> Floats:
    """Find when each task would end if it had all learners for itself, and none had to take part."""
    idle = replace(instance, min_shards=0)
    everyone = np.ones((1, instance.num_learners), dtype=bool)
    return np.array([idle.fewest_seconds(task, everyone)[0] for task in range(instance.num_tasks)])
