"""Lagrangian bound: the best prices of learners and money, over intervals of targets that get ever narrower.

Plans have Σ_j d_ij = D_i for each task, at most (or exactly) one task for each learner, and a budget. Where learners
and money have prices instead of limits, tasks have nothing more to do with each other, and each one takes the interval
in which it costs the least. The sum of these, less the prices of all there is, is no more than any plan takes. Better
prices come from a smooth version of the bound (`smooth_dual`), with ever less smoothing.

An interval in which a task costs so much that the sum exceeds the best known plan is dropped: no better plan is in it.
Intervals that a task takes are split, until they are so narrow that the bound is hardly the worse for it. An ascent
looks at the intervals of each task that were cheapest last time; only a look at all of them gives a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from paceline.allocation.med.instance import Bools, Floats, Indices
from paceline.allocation.med.intervals import Intervals, Prices
from paceline.allocation.med.limit import Limit
from paceline.allocation.med.smooth_dual import ascend
from paceline.allocation.rounding import TOLERANCE

SAFETY = 1e-9
"""Part of the bound that is kept back for the rounding of sums."""

_COLDEST, _REHEATED = 3e-4, 3e-3
_MIN_STEPS, _MAX_STEPS = 8, 60  # of an ascent
_COOLING = 0.7  # part of the temperature that is left after an ascent
_FINENESS = 32  # intervals are split until all together are off by this part of the gap
_FEWEST_NEAR, _MOST_NEAR = 4, 24  # intervals of a task that an ascent looks at
_MAX_NUMBERS = 4_000_000  # of all those intervals, for each learner


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """What the prices prove.

    Attributes:
        value: lower bound of all plans better than the best known one.
        prices: prices that prove it.
        intervals: intervals that hold the targets of better plans; a task has none left if there are no better plans.
        parts: part of each learner that each task took in the last ascent; a hint at good plans.
        temperature: temperature of the next ascent, as a part of the average price of a learner.
        num_steps: maximum of steps in the next ascent.
    """

    value: float
    prices: Prices
    intervals: Intervals
    parts: Floats
    temperature: float = 0.03
    num_steps: int = _MAX_STEPS

    @property
    def is_settled(self) -> bool:
        """Whether another ascent will hardly change the prices."""
        return self.temperature < _COLDEST

    def reheated(self) -> Bound:
        """Allow more ascents, after a while in which the best known plan may have become better."""
        return replace(self, temperature=max(self.temperature, _REHEATED), num_steps=_MAX_STEPS)


def improve(bound: Bound, best_known: float, *, max_ascents: int, limit: Limit) -> Bound:
    """Find better prices, and the intervals they leave. Ends early if prices are settled or the limit is reached."""
    prices = bound.prices
    if not bound.intervals.is_complete:
        return replace(bound, value=best_known)
    while True:
        intervals, values, chosen = cheapest_rows(bound.intervals, prices)
        value = float(values[chosen].sum()) - prices.constant(intervals.instance)
        value -= SAFETY * abs(value)
        if value > bound.value:
            bound = replace(bound, value=value, prices=prices)
        kept = values - values[chosen][intervals.tasks] <= best_known - value
        is_taken = np.zeros(len(intervals), dtype=bool)
        is_taken[chosen] = True
        wide = is_taken & _is_too_wide(intervals, best_known - value)
        intervals, values, wide = intervals.take(kept), values[kept], wide[kept]
        bound = replace(bound, intervals=intervals)
        if not intervals.is_complete:
            return replace(bound, value=best_known)
        if not limit.spend():
            return bound
        if wide.any():
            bound = replace(bound, intervals=intervals.split(wide))
            continue
        if max_ascents == 0 or bound.is_settled:
            return bound
        max_ascents -= 1
        if prices is bound.prices:
            bound = replace(bound, num_steps=min(bound.num_steps * 3 // 2, _MAX_STEPS))
        else:  # worse: a shorter ascent has less to do with intervals that were not looked at
            bound = replace(bound, num_steps=max(bound.num_steps // 2, _MIN_STEPS))
            intervals, values, _ = cheapest_rows(intervals, bound.prices)
        near = intervals.take(_nearest(intervals, values)).with_best_shard_prices(bound.prices)
        seconds = bound.temperature * max(float(np.abs(bound.prices.learners).mean()), TOLERANCE * best_known)
        prices, parts = ascend(
            near, bound.prices, temperature=seconds, goal=best_known, max_steps=bound.num_steps, limit=limit
        )
        bound = replace(bound, parts=parts, temperature=bound.temperature * _COOLING)


def cheapest_rows(intervals: Intervals, prices: Prices) -> tuple[Intervals, Floats, Indices]:
    """Find the value of each row and each task's cheapest row, which is exact; the others may be too low."""
    values, starts = intervals.values(prices), intervals.starts
    is_exact = np.zeros(len(intervals), dtype=bool)
    shard_prices = intervals.shard_prices.copy()
    while True:
        chosen = first_of_least(values, starts)
        stale = chosen[~is_exact[chosen]]
        if not stale.size:
            return replace(intervals, shard_prices=shard_prices), values, chosen
        rows = intervals.take(stale).with_best_shard_prices(prices)
        shard_prices[stale] = rows.shard_prices
        values[stale] = np.maximum(values[stale], rows.values(prices))
        is_exact[stale] = True


def first_of_least(values: Floats, starts: Indices) -> Indices:
    """Place of the least value of each run, the first if there are several."""
    least = np.minimum.reduceat(values, starts[:-1])
    places = np.flatnonzero(values == np.repeat(least, np.diff(starts)))
    return places[np.searchsorted(places, starts[:-1])]


def _nearest(intervals: Intervals, values: Floats) -> Indices:
    """Select the cheapest rows of each task."""
    instance = intervals.instance
    order = np.lexsort((values, intervals.tasks))
    places = np.arange(len(intervals)) - intervals.starts[intervals.tasks[order]]
    num_near = _MAX_NUMBERS // (instance.num_tasks * instance.num_learners)
    return np.sort(order[places < min(_MOST_NEAR, max(_FEWEST_NEAR, num_near))])


def _is_too_wide(intervals: Intervals, gap: float) -> Bools:
    """Return whether each row is so wide that the bound is much the worse for it."""
    width = gap / (_FINENESS * intervals.instance.num_tasks)
    return intervals.is_wide & (intervals.high - intervals.low > width)
