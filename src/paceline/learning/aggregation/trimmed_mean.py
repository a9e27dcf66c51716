"""The mean of each value, without the largest and the smallest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from msgspec import Meta

from paceline.learning.aggregation.base import Aggregated, Start, Update
from paceline.learning.aggregation.keeping import RobustAggregation, combine_sorted
from paceline.learning.averaging import State

_ROUNDING = 1e-9  # 0.29 of 100 are 29, also if the product is a little less


@dataclass(frozen=True, kw_only=True)
class TrimmedMeanAggregation(RobustAggregation):
    """The mean of the updates, value by value, without the extremes (Yin et al., 2018).

    Attributes:
        trim: share of the updates that is left out at either end, rounded down; wrong ones should be no more.
    """

    trim: Annotated[float, Meta(ge=0, lt=0.5)] = 0.2

    def combine(self, start: Start, updates: Sequence[Update], memory: State) -> Aggregated:
        num_cut = int(self.trim * len(updates) + _ROUNDING)

        def mean(values: torch.Tensor) -> torch.Tensor:
            return values[num_cut : len(values) - num_cut].mean(dim=0)

        return Aggregated(combine_sorted(updates, mean), memory)
