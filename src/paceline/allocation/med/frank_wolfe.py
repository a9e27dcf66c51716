"""First assignment and prices, by the method of Frank and Wolfe: no money, deadlines or whole shards.

Variables: x_ij, the part of learner j that task i has, Σ_i x_ij = 1.
Objective: the least Σ_i h_i, in seconds, where task i ends at the h_i with Σ_j x_ij·(h_i − A_ij)/B_ij = D_i.

A little more of learner j saves task i (h_i − A_ij)/B_ij / Σ_j (x_ij/B_ij) seconds, and learners go little by little to
where they save the most (Frank and Wolfe, *An algorithm for quadratic programming*, 1956).
"""

from __future__ import annotations

import numpy as np

from paceline.allocation.med.instance import Indices, Instance
from paceline.allocation.med.intervals import Prices

_NUM_STEPS = 60
_TOO_SLOW = 1e-6  # part of a task's time that a learner is taken to have at least, however slow it is


def assign(instance: Instance) -> tuple[Indices, Prices]:
    """Give each learner a task, and a price between the seconds it would save the best task and the next best."""
    learners = np.arange(instance.num_learners)
    fixed, rates = instance.fixed_seconds, 1.0 / instance.unit_seconds
    parts = np.full(fixed.shape, 1.0 / instance.num_tasks)
    for step in range(_NUM_STEPS):
        speeds = (parts * rates).sum(axis=1, keepdims=True)
        ends = (instance.shards[:, None] + (parts * fixed * rates).sum(axis=1, keepdims=True)) / speeds
        saved = np.maximum(ends - fixed, _TOO_SLOW * ends) * rates / speeds
        length = 2.0 / (step + 4)
        parts *= 1 - length
        parts[saved.argmax(axis=0), learners] += length
    return parts.argmax(axis=0), Prices(learners=np.sort(saved, axis=0)[-2:].mean(axis=0), money=0.0)
