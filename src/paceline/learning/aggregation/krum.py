"""Krum: the update that is closest to others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from paceline.checks import CountOrZero
from paceline.learning.aggregation.base import Aggregated, Start, Update
from paceline.learning.aggregation.keeping import RobustAggregation
from paceline.learning.averaging import RunningAverage, State, widened

_CHUNK_VALUES = 1 << 18  # of each update at a time, in float64
_TIE = 1e-6  # relative: two updates that are each other's nearest have the same score, but for rounding


@dataclass(frozen=True, kw_only=True)
class KrumAggregation(RobustAggregation):
    """The update whose n − f − 2 nearest others are closest, of n (Blanchard et al., 2017).

    This is proven to withstand f wrong updates if n is at least 2 f + 3; with fewer it is a choice like any other. Of
    several that are equally close the mean is taken.

    Attributes:
        num_byzantine: f, the number of wrong updates to withstand.
    """

    num_byzantine: CountOrZero = 1

    def combine(self, start: Start, updates: Sequence[Update], memory: State) -> Aggregated:
        return Aggregated(mean_of_closest(start, updates, self.num_byzantine, 1), memory)


def mean_of_closest(start: Start, updates: Sequence[Update], num_byzantine: int, num_chosen: int) -> State:
    """Return the mean of the updates with the best scores, and of those that are as good as the last of them."""
    scores = _scores(updates, num_byzantine)
    most = float(scores.sort().values[num_chosen - 1]) * (1 + _TIE)
    average = RunningAverage()
    for update, score in zip(updates, scores.tolist(), strict=True):
        if score <= most:
            average.add(update.parameters, 1.0)
    return average.result(start.parameters)


def _scores(updates: Sequence[Update], num_byzantine: int) -> torch.Tensor:
    """Return the sum of squared distances of each update to its n − f − 2 nearest others, one at least."""
    count = len(updates)
    products = torch.zeros(count, count, dtype=torch.float64)
    for values in _chunks(updates):
        values -= values.mean(dim=0)  # what all have in common would drown their differences
        products += values @ values.T
    squares = products.diagonal()
    distances = (squares[:, None] + squares[None, :] - products - products.T).clamp_(min=0)
    distances.fill_diagonal_(torch.inf)
    num_nearest = max(1, count - num_byzantine - 2)
    nearest = distances.sort(dim=1).values[:, : min(num_nearest, count - 1)]
    return nearest.sum(dim=1)


def _chunks(updates: Sequence[Update]) -> Iterator[torch.Tensor]:
    """Yield the real values of all updates, one row each, some columns at a time; whole numbers are left out."""
    for name, like in updates[0].parameters.items():
        if not (like.is_floating_point() or like.is_complex()):
            continue
        flat = [_real(update.parameters[name]).reshape(-1) for update in updates]
        for begin in range(0, flat[0].numel(), _CHUNK_VALUES):
            yield torch.stack([widened(one[begin : begin + _CHUNK_VALUES]).to(torch.float64) for one in flat])


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
