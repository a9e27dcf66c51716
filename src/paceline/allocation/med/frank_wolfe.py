"""First assignment and prices, by the method of Frank and Wolfe: no money, deadlines or whole shards.

Variables: x_ij, the part of learner j that task i has, Σ_i x_ij = 1.
Objective: the least Σ_i h_i, in seconds, where task i ends at the h_i with Σ_j x_ij·(h_i − A_ij)/B_ij = D_i.

A little more of learner j saves task i (h_i − A_ij)/B_ij / Σ_j (x_ij/B_ij) seconds, and learners go little by little to
where they save the most (Frank and Wolfe, *An algorithm for quadratic programming*, 1956). Then one after the other is
put into one task as a whole, the most decided first.
"""

from __future__ import annotations

import numpy as np

from paceline.allocation.med.instance import Indices, Instance
from paceline.allocation.med.intervals import Prices

_NUM_STEPS = 60
_TOO_SLOW = 1e-6  # part of a task's time that a learner is taken to have at least, however slow it is
_LEAST_SPEED = 1e-100  # of nobody: what is divided by it twice is no more than a float holds


def assign(instance: Instance) -> tuple[Indices, Prices]:
    """Give each learner a task, and a price between the seconds it would save the best task and the next best."""
    learners, tasks = np.arange(instance.num_learners), np.zeros(instance.num_learners, dtype=np.intp)
    fixed, rates = instance.fixed_seconds, 1.0 / instance.unit_seconds
    parts = np.full(fixed.shape, 1.0 / instance.num_tasks)
    for step in range(_NUM_STEPS):
        speeds = (parts * rates).sum(axis=1)
        unused = (parts * fixed * rates).sum(axis=1)
        ends = ((instance.shards + unused) / speeds)[:, None]
        saved = np.maximum(ends - fixed, _TOO_SLOW * ends) * rates / speeds[:, None]
        length = 2.0 / (step + 4)
        parts *= 1 - length
        parts[saved.argmax(axis=0), learners] += length
    best = np.sort(saved, axis=0)[-2:]
    speeds, unused = (parts * rates).sum(axis=1), (parts * fixed * rates).sum(axis=1)
    room = instance.shards // instance.least
    for learner in np.argsort(best[0] / best[-1], kind="stable").tolist():
        rate, waits = rates[:, learner], fixed[:, learner] * rates[:, learner]
        speeds, unused = speeds - parts[:, learner] * rate, unused - parts[:, learner] * waits
        ends = (instance.shards + unused) / np.maximum(speeds, _LEAST_SPEED)
        gains = (ends * rate - waits) / np.maximum(speeds + rate / 2, _LEAST_SPEED)
        task = int(np.where(room > 0, gains, -np.inf).argmax())
        tasks[learner], room[task] = task, room[task] - 1
        speeds[task], unused[task] = speeds[task] + rate[task], unused[task] + waits[task]
    return tasks, Prices(learners=best.mean(axis=0), money=0.0)
