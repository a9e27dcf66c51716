"""The median of each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from paceline.learning.aggregation.base import Aggregated, Start, Update
from paceline.learning.aggregation.keeping import RobustAggregation, combine_sorted
from paceline.learning.averaging import State


@dataclass(frozen=True, kw_only=True)
class MedianAggregation(RobustAggregation):
    """The median of the updates, value by value (Yin et al., 2018); holds as long as fewer than half are wrong."""

    def combine(self, start: Start, updates: Sequence[Update], memory: State) -> Aggregated:
        return Aggregated(median_of(updates), memory)


def median_of(updates: Sequence[Update]) -> State:
    """Return the median of updates, value by value."""
    return combine_sorted(updates, _middle)


def _middle(values: torch.Tensor) -> torch.Tensor:
    count = len(values)
    return torch.lerp(values[(count - 1) // 2], values[count // 2], 0.5)
