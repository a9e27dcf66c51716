"""Lagrangian bound with whole learners: prices as in `lagrangian`, improved by subgradient steps.

Each task takes the cheapest set of learners that really covers its shards (`knapsack`), so the bound is that of
choosing one set per task, every learner in one, with fractions of sets allowed. It is much higher than with fractions
of learners where tasks have few of them, and takes longer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paceline.allocation.med.instance import Bools
from paceline.allocation.med.intervals import Intervals, Prices
from paceline.allocation.med.knapsack import Knapsacks, table_size
from paceline.allocation.med.lagrangian import SAFETY, Bound, cheapest_rows, first_of_least
from paceline.allocation.med.limit import Limit

MAX_TABLE = 12_000_000
"""Numbers in the tables of all intervals, up to which they are worth their time."""

_MAX_STEPS = 80
_MOMENTUM = 0.5
_PATIENCE = 4  # steps without a better bound, after which they get shorter
_FIRST, _SHRINK, _SHORTEST = 0.3, 0.7, 2e-3  # lengths of steps, as parts of the gap


def to_moments(bound: Bound, best_known: float) -> Bound | None:
    """Split intervals until they are single moments; None if there would be too many."""
    intervals, prices = bound.intervals, bound.prices
    while intervals.is_complete:
        wide = intervals.is_wide
        if not wide.any():
            return replace(bound, intervals=intervals)
        intervals, values, chosen = cheapest_rows(intervals.split(wide), prices)
        value = (float(values[chosen].sum()) - prices.constant(intervals.instance)) * (1 - SAFETY)
        intervals = intervals.take(values - values[chosen][intervals.tasks] <= best_known - value)
        if table_size(intervals) > MAX_TABLE:
            return None
    return replace(bound, intervals=intervals, value=best_known)


def improve_whole(bound: Bound, best_known: float, limit: Limit) -> tuple[Bound, Knapsacks | None]:
    """Find better prices, and the intervals they leave, with the tables of those; None if no interval is left."""
    prices, step, num_idle = bound.prices, _FIRST, 0
    instance = bound.intervals.instance
    # so that a step changes the price of money about as much as those of learners; 0 where money is no object
    money_scale = 0.0 if instance.has_ample_budget else instance.num_learners / instance.dearest_cost
    direction = np.zeros(instance.num_learners + 1)
    bound = replace(bound, value=-np.inf)
    for _ in range(_MAX_STEPS):
        knapsacks = Knapsacks.of(bound.intervals, prices)
        values = knapsacks.values
        chosen = first_of_least(values, bound.intervals.starts)
        value = float(values[chosen].sum()) - prices.constant(instance)
        value -= SAFETY * abs(value)
        if value > bound.value:
            bound, num_idle = replace(bound, value=value, prices=prices), 0
        else:
            num_idle += 1
        kept = values - values[chosen][bound.intervals.tasks] <= best_known - value
        sets, rows = knapsacks.cheapest(chosen), bound.intervals.take(chosen)
        bound = replace(bound, intervals=bound.intervals.take(kept))
        if not bound.intervals.is_complete:
            return replace(bound, value=best_known), None
        if num_idle >= _PATIENCE:
            step, num_idle, prices, direction = step * _SHRINK, 0, bound.prices, 0 * direction
        if step < _SHORTEST or not limit.spend():
            break
        overspent = _cost(rows, sets, prices) - instance.budget if money_scale else 0.0
        subgradient = np.append(sets.sum(axis=0) - 1, overspent * money_scale)
        direction = _MOMENTUM * direction + (1 - _MOMENTUM) * subgradient
        length = float((direction**2).sum())
        if length <= 0:
            break
        change = step * max(best_known - value, 0.0) / length * direction
        learners = prices.learners + change[:-1]
        prices = Prices(
            learners=np.maximum(learners, 0.0) if instance.may_idle else learners,
            money=max(0.0, prices.money + change[-1] * money_scale),
        )
    return bound, Knapsacks.of(bound.intervals, bound.prices)


def _cost(rows: Intervals, sets: Bools, prices: Prices) -> float:
    """Cost of the shards that the sets would take at these prices."""
    instance = rows.instance
    is_worth_it = prices.money * instance.prices < rows.shard_prices[:, None]
    counts = np.where(sets, np.where(is_worth_it, rows.most, instance.least), 0.0)
    return float((counts * instance.prices).sum())
