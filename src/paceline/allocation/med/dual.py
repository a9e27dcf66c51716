"""The bound: the best prices of learners and money, over cells of targets that get ever smaller.

Plans have Σ_j d_ij = D_i for each task, at most (or exactly) one task for each learner, and a budget. Where learners
and money have prices instead of limits, tasks have nothing more to do with each other, and each one takes the cell in
which it costs the least. The sum of these, less the prices of all there is, is no more than any plan takes. The best
prices are found by subgradient steps: what is asked for too much gets dearer.

A cell in which a task costs so much that the sum exceeds the best known plan is dropped: no better plan is in it.
Cells that a task takes are split, until they are so narrow that the bound is hardly the worse for it. Most steps look
at the few cells of each task that were cheapest last time; only a look at all of them gives a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paceline.allocation.med.cells import Cells, Prices
from paceline.allocation.med.instance import Bools, Floats, Indices
from paceline.allocation.rounding import TOLERANCE

SAFETY = 1e-9
"""Of the bound, which is kept back for the rounding of sums."""

_MOMENTUM = 0.6
_MEMORY = 0.05  # weight of a step's shares in their average
_PATIENCE = 8  # steps without a better bound, after which they get shorter
_SHRINK = 0.7
_MAX_WORSE = 1  # looks at all cells without a better bound, after which steps start again from the best prices
_SHORTEST = 1e-3  # of the steps, after which they are given up
_MONEY_WEIGHT = 1.0
_FINENESS = 8  # cells are split until all together are off by this part of the gap
_NUM_NEAR = 8  # cells of a task that most steps look at
_NUM_STEPS = 16  # between two looks at all cells


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """What the prices prove.

    Attributes:
        value: no plan is better than this or the best known one.
        prices: that prove it.
        cells: in which the targets of better plans are; a task has none left if there are no better plans.
        parts: what each task took of each learner, on average of late; a hint at good plans.
        step: the length of the next step, as a part of Polyak's.
    """

    value: float
    prices: Prices
    cells: Cells
    parts: Floats
    step: float = 0.3

    @property
    def money_scale(self) -> float:
        """So that a step changes the price of money about as much as those of learners; 0 where money is no object."""
        instance = self.cells.instance
        return 0.0 if instance.has_ample_budget else _MONEY_WEIGHT * instance.num_learners / instance.dearest_cost


def improve(bound: Bound, best_known: float, *, max_climbs: int, is_over: Callable[[], bool]) -> Bound:
    """Better prices, and the cells that they leave. Ends early if steps have become short or the time is over."""
    prices, num_worse, is_new = bound.prices, 0, False
    if not bound.cells.is_complete:
        return replace(bound, value=best_known)
    while max_climbs > 0:
        cells, values, chosen = cheapest_rows(bound.cells, prices)
        value = float(values[chosen].sum()) - prices.constant(cells.instance)
        value -= SAFETY * abs(value)
        if value > bound.value:
            bound = replace(bound, value=value, prices=prices)
            num_worse = 0
        elif is_new:
            num_worse += 1
        kept = values - values[chosen][cells.tasks] <= best_known - value
        is_taken = np.zeros(len(cells), dtype=bool)
        is_taken[chosen] = True
        wide = is_taken & _is_wide(cells, best_known - value)
        cells, values, wide = cells.take(kept), values[kept], wide[kept]
        bound = replace(bound, cells=cells)
        if not cells.is_complete:
            return replace(bound, value=best_known)
        if is_over():
            break
        is_new = not wide.any()
        if is_new:
            max_climbs -= 1
            if num_worse >= _MAX_WORSE:
                prices, num_worse = bound.prices, 0
                bound = replace(bound, step=bound.step * _SHRINK)
                cells, values, _ = cheapest_rows(cells, prices)
            near = _nearest(cells, values)
            climb = _Climb(replace(bound, cells=cells.take(near), prices=prices), best_known)
            climb.run()
            prices = climb.best_prices
            bound = replace(bound, parts=climb.parts, step=climb.step)
            if bound.step < _SHORTEST:
                break
            wide[near[climb.is_taken]] = True
            wide &= _is_wide(cells, best_known - value)
        if wide.any():
            bound = replace(bound, cells=cells.split(wide))
    return bound


class _Climb:
    """Subgradient steps over a few cells."""

    def __init__(self, bound: Bound, best_known: float) -> None:
        self._cells, self._best_known = bound.cells, best_known
        self._money_scale = bound.money_scale
        self._prices = self.best_prices = bound.prices
        self.parts = bound.parts.copy()
        self.step = bound.step
        self.is_taken = np.zeros(len(bound.cells), dtype=bool)

    def run(self) -> None:
        """Take the steps; the best prices are those of the largest value."""
        instance = self._cells.instance
        best, num_idle = -np.inf, 0
        direction, money_direction = np.zeros(instance.num_learners), 0.0
        for _ in range(_NUM_STEPS):
            self._cells, values, chosen = cheapest_rows(self._cells, self._prices)
            self.is_taken[chosen] = True
            value = float(values[chosen].sum()) - self._prices.constant(instance)
            _, parts, shards = self._cells.take(chosen).best_shares(self._prices)
            self.parts += _MEMORY * (parts - self.parts)
            if value > best + TOLERANCE * abs(best) or best == -np.inf:
                best, self.best_prices, num_idle = value, self._prices, 0
            else:
                num_idle += 1
            if num_idle >= _PATIENCE:
                self.step *= _SHRINK
                num_idle, self._prices, direction, money_direction = 0, self.best_prices, 0 * direction, 0.0
            direction = _MOMENTUM * direction + (1 - _MOMENTUM) * (parts.sum(axis=0) - 1)
            spent = float((shards.sum(axis=0) * instance.prices).sum())
            slope = (spent - instance.budget) * self._money_scale if self._money_scale else 0.0
            money_direction = _MOMENTUM * money_direction + (1 - _MOMENTUM) * slope
            length = float((direction**2).sum()) + money_direction**2
            if length <= 0:
                self.step = 0.0
                return
            scale = self.step * max(self._best_known - value, 0.0) / length
            self._prices = self._prices.moved(instance, scale * direction, scale * self._money_scale * money_direction)


def cheapest_rows(cells: Cells, prices: Prices) -> tuple[Cells, Floats, Indices]:
    """The value of each row and each task's cheapest row, which is exact; the others may be too low."""
    values = cells.values(prices)
    starts = cells.starts
    is_exact = np.zeros(len(cells), dtype=bool)
    shard_prices = cells.shard_prices.copy()
    while True:
        chosen = first_of_least(values, starts)
        stale = chosen[~is_exact[chosen]]
        if not stale.size:
            return replace(cells, shard_prices=shard_prices), values, chosen
        rows = cells.take(stale)
        shard_prices[stale], _, _ = rows.best_shares(prices)
        values[stale] = np.maximum(values[stale], replace(rows, shard_prices=shard_prices[stale]).values(prices))
        is_exact[stale] = True


def _nearest(cells: Cells, values: Floats) -> Indices:
    """The cheapest rows of each task."""
    order = np.lexsort((values, cells.tasks))
    places = np.arange(len(cells)) - cells.starts[cells.tasks[order]]
    return np.sort(order[places < _NUM_NEAR])


def _is_wide(cells: Cells, gap: float) -> Bools:
    """Whether a row is so wide that the bound is much the worse for it."""
    width = gap / (_FINENESS * cells.instance.num_tasks)
    is_wide: Bools = cells.high - cells.low > np.maximum(width, 4 * TOLERANCE * cells.high)
    return is_wide


def first_of_least(values: Floats, starts: Indices) -> Indices:
    """The first of the least of each run."""
    least = np.minimum.reduceat(values, starts[:-1])
    places = np.flatnonzero(values == np.repeat(least, np.diff(starts)))
    return places[np.searchsorted(places, starts[:-1])]
