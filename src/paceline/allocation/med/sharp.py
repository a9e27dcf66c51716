"""The sharper bound: prices as in `dual`, but tasks take whole learners.

Each task takes the cheapest set that really covers its shards, so the bound is that of choosing one set per task, every
learner in one, with fractions of sets allowed. It is much sharper than with fractions of learners where tasks have few
of them, and takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from paceline.allocation.med.cells import Cells, Prices
from paceline.allocation.med.covers import MAX_UNITS, Covers
from paceline.allocation.med.dual import SAFETY, Bound, cheapest_rows, first_of_least
from paceline.allocation.med.instance import Bools, Floats
from paceline.allocation.rounding import TOLERANCE

MAX_TABLE = 12_000_000
"""Numbers in the tables of all cells, up to which they are worth their time."""

_MOMENTUM = 0.5
_PATIENCE = 4
_SHRINK = 0.7
_SHORTEST = 2e-3


def table_size(cells: Cells) -> float:
    """Numbers in the tables of all cells."""
    units = np.minimum(cells.instance.shards.max(), MAX_UNITS)
    return float(len(cells) * (cells.instance.num_learners + 1) * (units + 1))


def to_moments(bound: Bound, best_known: float) -> Bound | None:
    """The bound with cells that are single moments; None if there would be too many."""
    cells = bound.cells
    while cells.is_complete:
        wide = cells.high - cells.low > 4 * TOLERANCE * cells.high
        if not wide.any():
            return replace(bound, cells=cells)
        cells, values, chosen = cheapest_rows(cells.split(wide), bound.prices)
        cells = cells.take(values - values[chosen][cells.tasks] <= _gap(bound, values[chosen], best_known))
        if table_size(cells) > MAX_TABLE:
            return None
    return replace(bound, cells=cells, value=best_known)


def sharpen(
    bound: Bound, best_known: float, *, max_steps: int, is_over: Callable[[], bool]
) -> tuple[Bound, Covers | None]:
    """Better prices, and the cells that they leave, with the tables of those; None if no cell is left."""
    prices, step, num_idle = bound.prices, 0.3, 0
    instance = bound.cells.instance
    direction, money_direction = np.zeros(instance.num_learners), 0.0
    bound = replace(bound, value=-np.inf)
    for _ in range(max_steps):
        covers = Covers.of(bound.cells, prices)
        values = covers.values
        chosen = first_of_least(values, bound.cells.starts)
        value = float(values[chosen].sum()) - prices.constant(instance)
        value -= SAFETY * abs(value)
        if value > bound.value:
            bound, num_idle = replace(bound, value=value, prices=prices), 0
        else:
            num_idle += 1
        kept = values - values[chosen][bound.cells.tasks] <= best_known - value
        sets, rows = covers.cheapest(chosen), bound.cells.take(chosen)
        bound = replace(bound, cells=bound.cells.take(kept))
        if not bound.cells.is_complete:
            return replace(bound, value=best_known), None
        if num_idle >= _PATIENCE:
            step, num_idle, prices = step * _SHRINK, 0, bound.prices
            direction, money_direction = 0 * direction, 0.0
        if step < _SHORTEST or is_over():
            break
        direction = _MOMENTUM * direction + (1 - _MOMENTUM) * (sets.sum(axis=0) - 1)
        scale = bound.money_scale
        slope = (_spent(rows, sets, prices) - instance.budget) * scale if scale else 0.0
        money_direction = _MOMENTUM * money_direction + (1 - _MOMENTUM) * slope
        length = float((direction**2).sum()) + money_direction**2
        if length <= 0:
            break
        factor = step * max(best_known - value, 0.0) / length
        prices = prices.moved(instance, factor * direction, factor * scale * money_direction)
    return bound, Covers.of(bound.cells, bound.prices)


def _gap(bound: Bound, task_values: Floats, best_known: float) -> float:
    return best_known - (float(task_values.sum()) - bound.prices.constant(bound.cells.instance)) * (1 - SAFETY)


def _spent(rows: Cells, sets: Bools, prices: Prices) -> float:
    """What the shards cost that the sets would take at these prices."""
    instance = rows.instance
    is_worth_it = prices.money * instance.prices < rows.shard_prices[:, None]
    counts = np.where(sets, np.where(is_worth_it, rows.most, instance.least), 0.0)
    return float((counts * instance.prices).sum())
