"""First assignment and prices, by the method of Frank and Wolfe: no money, deadlines or whole shards.

Variables: x_ij, the part of learner j that task i has, Σ_i x_ij = 1.
Objective: the least Σ_i h_i, in seconds, where task i ends at the h_i with Σ_j x_ij·(h_i − A_ij)/B_ij = D_i.

A little more of learner j saves task i (h_i − A_ij)/B_ij / Σ_j (x_ij/B_ij) seconds, and learners go little by little to
where they save the most. Then one after the other is put into one task as a whole, the most decided first.
"""

from __future__ import annotations

import numpy as np

from paceline.allocation.med.instance import Floats, Indices, Instance
from paceline.allocation.med.intervals import Prices

_NUM_STEPS = 60
_TOO_SLOW = 1e-6  # part of a task's time that a learner is taken to have at least, however slow it is


def assign(instance: Instance) -> tuple[Indices, Prices]:
    """Give each learner a task, and a price between the seconds it would save the best task and the next best."""
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
    """Seconds by which a task ends earlier per part of each learner; above 0."""
    fixed, unit = instance.fixed_seconds, instance.unit_seconds
    rates = (parts / unit).sum(axis=1)
    ends = (instance.shards + (parts * fixed / unit).sum(axis=1)) / rates
    savings: Floats = np.maximum(ends[:, None] - fixed, _TOO_SLOW * ends[:, None]) / unit / rates[:, None]
    return savings
