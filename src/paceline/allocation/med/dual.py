"""The bound: the best prices of learners and money, over cells of targets that get ever smaller.

Plans have Σ_j d_ij = D_i for each task, at most (or exactly) one task for each learner, and a budget. Where learners
and money have prices instead of limits, tasks have nothing more to do with each other, and each one takes the cell in
which it costs the least. The sum of these, less the prices of all there is, is no more than any plan takes. Better
prices come from a smooth version of the bound (`climb`), with ever less heat.

A cell in which a task costs so much that the sum exceeds the best known plan is dropped: no better plan is in it.
Cells that a task takes are split, until they are so narrow that the bound is hardly the worse for it. A climb looks at
the cells of each task that were cheapest last time; only a look at all of them gives a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paceline.allocation.med.cells import Cells, Prices
from paceline.allocation.med.climb import climb
from paceline.allocation.med.instance import Bools, Floats, Indices
from paceline.allocation.rounding import TOLERANCE

SAFETY = 1e-9
"""Of the bound, which is kept back for the rounding of sums."""

_COLDEST, _REHEATED = 3e-4, 3e-3
_MIN_STEPS, _MAX_STEPS = 8, 60
_COOLING = 0.7  # of the heat, that is left after a climb
_MONEY_WEIGHT = 1.0
_FINENESS = 32  # cells are split until all together are off by this part of the gap
_FEWEST_NEAR, _MOST_NEAR = 4, 24  # cells of a task that a climb looks at
_MAX_NUMBERS = 4_000_000  # of all those cells, for each learner


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """What the prices prove.

    Attributes:
        value: no plan is better than this or the best known one.
        prices: that prove it.
        cells: in which the targets of better plans are; a task has none left if there are no better plans.
        parts: what each task took of each learner in the last climb; a hint at good plans.
        heat: of the next climb, as a part of the average price of a learner.
        num_steps: of the next climb, at most.
    """

    value: float
    prices: Prices
    cells: Cells
    parts: Floats
    heat: float = 0.03
    num_steps: int = _MAX_STEPS

    def reheated(self) -> Bound:
        """To be climbed from again, after a while in which the best known plan may have become better."""
        return replace(self, heat=max(self.heat, _REHEATED), num_steps=_MAX_STEPS)

    @property
    def money_scale(self) -> float:
        """So that a step changes the price of money about as much as those of learners; 0 where money is no object."""
        instance = self.cells.instance
        return 0.0 if instance.has_ample_budget else _MONEY_WEIGHT * instance.num_learners / instance.dearest_cost


def improve(bound: Bound, best_known: float, *, max_climbs: int, is_over: Callable[[], bool]) -> Bound:
    """Better prices, and the cells that they leave. Ends early if there is no heat left or the time is over."""
    prices = bound.prices
    if not bound.cells.is_complete:
        return replace(bound, value=best_known)
    while True:
        cells, values, chosen = cheapest_rows(bound.cells, prices)
        value = float(values[chosen].sum()) - prices.constant(cells.instance)
        value -= SAFETY * abs(value)
        if value > bound.value:
            bound = replace(bound, value=value, prices=prices)
        kept = values - values[chosen][cells.tasks] <= best_known - value
        is_taken = np.zeros(len(cells), dtype=bool)
        is_taken[chosen] = True
        wide = is_taken & _is_wide(cells, best_known - value)
        cells, values, wide = cells.take(kept), values[kept], wide[kept]
        bound = replace(bound, cells=cells)
        if not cells.is_complete:
            return replace(bound, value=best_known)
        if is_over():
            return bound
        if wide.any():
            bound = replace(bound, cells=cells.split(wide))
            continue
        if max_climbs == 0 or bound.heat < _COLDEST:
            return bound
        max_climbs -= 1
        if prices is not bound.prices:  # worse: a shorter climb has less to do with cells that were not looked at
            bound = replace(bound, num_steps=max(bound.num_steps // 2, _MIN_STEPS))
            cells, values, _ = cheapest_rows(cells, bound.prices)
        else:
            bound = replace(bound, num_steps=min(bound.num_steps * 3 // 2, _MAX_STEPS))
        near = cells.take(_nearest(cells, values))
        near = replace(near, shard_prices=near.best_shares(bound.prices)[0])
        heat = bound.heat * max(float(np.abs(bound.prices.learners).mean()), TOLERANCE * best_known)
        climbed = climb(near, bound.prices, heat=heat, goal=best_known, num_steps=bound.num_steps, is_over=is_over)
        prices = climbed.prices
        bound = replace(bound, parts=climbed.parts, heat=bound.heat * _COOLING)


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
    num_near = _MAX_NUMBERS // (cells.instance.num_tasks * cells.instance.num_learners)
    return np.sort(order[places < min(_MOST_NEAR, max(_FEWEST_NEAR, num_near))])


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
