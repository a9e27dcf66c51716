"""Intervals of targets, and a bound on what a task costs in each when learners, shards and money have prices.

Whatever the target of a task is in [low, high], a learner can take no more than by `high`, and the task takes no less
than `low`. With a price μ_j for each learner and ν for a unit of money, both in seconds, the least that a task costs in
an interval, with fractions of learners allowed, is

    low + max_λ { λ·D + Σ_j min(0, μ_j + min over least ≤ d ≤ cap_j of (ν·p_j − λ)·d) },

and any λ, the price of a shard, gives a bound from below. It is concave in λ, and its slope falls by what a learner
takes where it pays to take it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.allocation.med.instance import Bools, Floats, Indices, Instance
from paceline.allocation.rounding import TOLERANCE

_NUM_PARTS = 4  # that an interval is split into


@dataclass(frozen=True, kw_only=True, eq=False)
class Prices:
    """Prices of learners, μ, in seconds; and of money, ν, in seconds per unit."""

    learners: Floats
    money: float

    def constant(self, instance: Instance) -> float:
        """Sum to take from all tasks' costs to make it a bound: the prices of all learners and of the budget."""
        return float(self.learners.sum()) + (self.money * instance.budget if self.money else 0.0)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of all tasks, a row each, by task, then by target.

    Attributes:
        tasks: task of each row.
        low: least target of each row.
        high: largest target of each row.
        most: capacities by `high`, by row and learner; 0 where a learner cannot be in the task.
        shard_prices: λ, shard price that was found last.
    """

    instance: Instance
    tasks: Indices
    low: Floats
    high: Floats
    most: Floats
    shard_prices: Floats

    @classmethod
    def cover(cls, instance: Instance, low: Floats, high: Floats, num_each: int) -> Intervals:
        """Make so many intervals of equal width for each task, from its least to its largest target."""
        edges = np.linspace(low, high, num_each + 1)
        tasks = np.repeat(np.arange(instance.num_tasks), num_each)
        return cls._shrunk(instance, tasks, edges[:-1].T.ravel(), edges[1:].T.ravel(), np.zeros(len(tasks)))

    @classmethod
    def _shrunk(cls, instance: Instance, tasks: Indices, low: Floats, high: Floats, shard_prices: Floats) -> Intervals:
        """Shrink intervals to the first and last moment in them at which some learner can be done; drop empty ones."""
        fixed, unit = instance.fixed_seconds[tasks], instance.unit_seconds[tasks]
        most = instance.capacities(tasks, high)
        up = np.maximum(instance.least, np.ceil((low[:, None] * (1 - TOLERANCE) - fixed) / unit))
        first = np.maximum(low * (1 - TOLERANCE), (fixed + unit * up).min(axis=1))
        down = np.where(most > 0, fixed + unit * np.floor((high[:, None] * (1 + TOLERANCE) - fixed) / unit), 0.0)
        last = np.minimum(high, down.max(axis=1))
        kept = (first <= last * (1 + 2 * TOLERANCE)) & (most.sum(axis=1) >= instance.shards[tasks])
        low = np.minimum(first, last)
        return cls(instance, tasks, low, last, most, shard_prices).take(kept)

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def starts(self) -> Indices:
        """Where each task's rows begin, and where the last one's end."""
        return np.searchsorted(self.tasks, np.arange(self.instance.num_tasks + 1))

    @property
    def is_complete(self) -> bool:
        """Whether each task has an interval left; if not, no plan is in them."""
        return bool(np.all(np.diff(self.starts) > 0))

    @property
    def is_wide(self) -> Bools:
        """Whether each row is more than a single moment."""
        is_wide: Bools = self.high - self.low > 4 * TOLERANCE * self.high
        return is_wide

    def take(self, kept: Bools | Indices) -> Intervals:
        """Select rows, in their order."""
        return Intervals(self.instance, *(column[kept] for column in self._columns))

    def split(self, wide: Bools) -> Intervals:
        """Split the wide rows in a few equal parts, and keep the others as they are."""
        edges = np.linspace(self.low[wide], self.high[wide], _NUM_PARTS + 1)
        tasks, shard_prices = np.tile(self.tasks[wide], _NUM_PARTS), np.tile(self.shard_prices[wide], _NUM_PARTS)
        parts = Intervals._shrunk(self.instance, tasks, edges[:-1].ravel(), edges[1:].ravel(), shard_prices)
        columns = zip(self.take(~wide)._columns, parts._columns, strict=True)
        joined = Intervals(self.instance, *(np.concatenate(pair) for pair in columns))
        return joined.take(np.lexsort((joined.low, joined.tasks)))

    @property
    def _columns(self) -> tuple[Any, ...]:
        return self.tasks, self.low, self.high, self.most, self.shard_prices

    def values(self, prices: Prices) -> Floats:
        """Bound the cost of each row's task from below, by the shard prices that are known."""
        money = prices.money * self.instance.prices - self.shard_prices[:, None]
        worth = np.minimum(prices.learners + np.minimum(money * self.instance.least, money * self.most), 0.0)
        worth[self.most == 0] = 0.0
        values: Floats = self.low + self.shard_prices * self.instance.shards[self.tasks] + worth.sum(axis=1)
        return values

    def with_best_shard_prices(self, prices: Prices) -> Intervals:
        """Find the shard price of each row at which its bound is the largest: where the slope becomes negative."""
        most, least = self.most, float(self.instance.least)
        money = prices.money * self.instance.prices
        is_able = most > 0
        # a learner that costs something is taken as a whole; one that is better taken joins early, with its least
        is_dear = prices.learners >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            joins = np.where(is_able, money + prices.learners / np.where(is_dear, most, least), np.inf)
        events, steps = joins, np.where(is_dear, most, np.minimum(least, most))
        if not is_dear.all():
            extends = np.where(is_able & ~is_dear, money, np.inf)
            events = np.concatenate([joins, extends], axis=1)
            steps = np.concatenate([steps, np.where(is_able & ~is_dear, most - least, 0.0)], axis=1)
        order = np.argsort(events, axis=1)
        sums = np.cumsum(np.take_along_axis(steps, order, axis=1), axis=1)
        rows = np.arange(len(self))
        last = order[rows, np.argmax(sums >= self.instance.shards[self.tasks][:, None], axis=1)]
        return replace(self, shard_prices=events[rows, last])
