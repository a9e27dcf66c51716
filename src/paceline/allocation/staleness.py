"""Staleness of a round: how far the learners' local epochs are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from paceline.allocation.problem_base import AllocatedShare

N = TypeVar("N", int, float)


def staleness(shares: Sequence[AllocatedShare]) -> int:
    """Return the largest difference between two learners' local epochs."""
    local_epochs = [share.iterations for share in shares]
    return max(local_epochs) - min(local_epochs)


def average_staleness(shares: Sequence[AllocatedShare]) -> float:
    """Return the mean difference in local epochs over all pairs of learners, Eq. 13; 0 for a single one."""
    return mean_difference([share.iterations for share in shares])


def mean_difference(numbers: Sequence[float]) -> float:
    """Return the mean absolute difference over all pairs of numbers; 0 for a single one."""
    num_pairs = len(numbers) * (len(numbers) - 1) // 2
    return sum_of_differences(sorted(numbers)) / max(num_pairs, 1)


def sum_of_differences(rising: Sequence[N]) -> N:
    """Sum the differences of all pairs of numbers, given in rising order."""
    # The number at an index is the larger one of `index` pairs, and the smaller one of the others.
    last = len(rising) - 1
    return sum((2 * index - last) * number for index, number in enumerate(rising))
