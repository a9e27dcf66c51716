"""Rounding of real shares to whole ones within the limits that add up."""

from __future__ import annotations

import numpy as np

from paceline.allocation.csa.exact import take_back
from paceline.allocation.csa.steps import Counts, Seconds, Steps, total_of
from paceline.allocation.rounding import split_evenly


def repair(steps: Steps, real: Seconds, total: int, min_local_epochs: int) -> Counts:
    """Find nearby shares that keep all limits; there must be no conflict.

    What rounding down leaves over goes to the learners with the largest fractions. Whatever else is too much or too
    little is taken from or given to all evenly.
    """
    most = steps.most_for(min_local_epochs)
    counts = np.clip(np.floor(real), steps.low, most).astype(np.int64)
    missing = total - total_of(counts)
    if missing < 0:
        return take_back(counts, steps.low, total)
    with_room = np.flatnonzero(counts < most)
    largest = with_room[np.argsort(-(real - np.floor(real))[with_room], kind="stable")]
    counts[largest[:missing]] += 1
    parts = split_evenly(total - total_of(counts), (most - counts).tolist())
    return counts + np.array(parts, dtype=np.int64)
