"""A first assignment: by the rates of learners alone, without money or limits of time.

If fractions of learners x_ij and of shards are allowed, task i ends at the h_i with Σ_j x_ij·(h_i − A_ij)/B_ij = D_i.
A little more of learner j saves it (h_i − A_ij)/B_ij / Σ_j (x_ij/B_ij) seconds. By the method of Frank and Wolfe,
learners go little by little to where they save the most. Then one after the other is put into one task as a whole, the
most decided first.
"""

from __future__ import annotations

import numpy as np

from paceline.allocation.med.cells import Prices
from paceline.allocation.med.instance import Floats, Indices, Instance

_NUM_STEPS = 60
_TOO_SLOW = 1e-6  # of a task's time, what a learner is left with at least that is too slow for it


def spread(instance: Instance) -> tuple[Indices, Prices]:
    """A task for each learner, and prices between the two tasks that each would save the most seconds."""
    learners = np.arange(instance.num_learners)
    parts = np.full((instance.num_tasks, instance.num_learners), 1.0 / instance.num_tasks)
    rates, starts = 1.0 / instance.unit_seconds, instance.fixed_seconds / instance.unit_seconds
    for step in range(_NUM_STEPS):
        savings = _savings(instance, parts)
        length = 2.0 / (step + 4)
        parts *= 1 - length
        parts[savings.argmax(axis=0), learners] += length
    savings = _savings(instance, parts)
    ranked = np.sort(savings, axis=0)
    second = ranked[-2] if instance.num_tasks > 1 else ranked[-1] / 2
    tasks = np.zeros(instance.num_learners, dtype=np.intp)
    rate, begun = (parts * rates).sum(axis=1), (parts * starts).sum(axis=1)
    room = instance.shards // instance.least
    for learner in np.argsort(second / ranked[-1], kind="stable").tolist():
        own = parts[:, learner]
        rate, begun = rate - own * rates[:, learner], begun - own * starts[:, learner]
        ends = (instance.shards + begun) / np.maximum(rate, 1e-300)
        saved = (ends * rates[:, learner] - starts[:, learner]) / np.maximum(rate + rates[:, learner] / 2, 1e-300)
        task = int(np.where(room > 0, saved, -np.inf).argmax())
        tasks[learner], room[task] = task, room[task] - 1
        rate[task], begun[task] = rate[task] + rates[task, learner], begun[task] + starts[task, learner]
    return tasks, Prices(learners=(ranked[-1] + second) / 2, money=0.0)


def _savings(instance: Instance, parts: Floats) -> Floats:
    """By how many seconds a task ends earlier for a little more of each learner; above 0."""
    fixed, unit = instance.fixed_seconds, instance.unit_seconds
    rates = (parts / unit).sum(axis=1)
    ends = (instance.shards + (parts * fixed / unit).sum(axis=1)) / rates
    savings: Floats = np.maximum(ends[:, None] - fixed, _TOO_SLOW * ends[:, None]) / unit / rates[:, None]
    return savings
