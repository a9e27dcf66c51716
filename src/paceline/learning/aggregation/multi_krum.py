"""Multi-Krum: the mean of the updates that are closest to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.checks import CountOrZero
from paceline.learning.aggregation.base import Aggregated, Start, Update
from paceline.learning.aggregation.keeping import RobustAggregation
from paceline.learning.aggregation.krum import mean_of_closest
from paceline.learning.averaging import State


@dataclass(frozen=True, kw_only=True)
class MultiKrumAggregation(RobustAggregation):
    """The mean of the n − f − 2 updates that `KrumAggregation` scores best, of n (Blanchard et al., 2017).

    Attributes:
        num_byzantine: f, the number of wrong updates to withstand; n should be at least 2 f + 3.
    """

    num_byzantine: CountOrZero = 1

    def combine(self, start: Start, updates: Sequence[Update], memory: State) -> Aggregated:
        num_chosen = max(1, len(updates) - self.num_byzantine - 2)
        return Aggregated(mean_of_closest(start, updates, self.num_byzantine, num_chosen), memory)
