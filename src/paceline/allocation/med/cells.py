"""Intervals of targets, and what the learners would be worth in each.

A cell is a task and an interval [low, high] of its target. Whatever the target is in there, a learner can take no more
than by `high`, and the task takes no less than `low`. With a price μ_j for each learner and ν for a unit of money, the
least that a task costs in a cell, with fractions of learners allowed, is

    low + max_λ { λ·D + Σ_j min(0, μ_j + min over least ≤ d ≤ cap_j of (ν·p_j − λ)·d) },

and any λ, the price of a shard, gives a bound from below. It is concave in λ, and its slope falls by what a learner
takes where it pays to take it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.allocation.med.instance import Bools, Floats, Indices, Instance
from paceline.allocation.rounding import TOLERANCE

_NUM_PARTS = 4  # that a cell is split into


@dataclass(frozen=True, kw_only=True, eq=False)
class Prices:
    """Of learners, μ, in seconds; and of money, ν, in seconds per unit."""

    learners: Floats
    money: float

    def moved(self, instance: Instance, learners: Floats, money: float) -> Prices:
        """Other prices, by so much, but none below what makes sense."""
        moved = self.learners + learners
        return Prices(
            learners=np.maximum(moved, 0.0) if instance.may_idle else moved, money=max(0.0, self.money + money)
        )

    def constant(self, instance: Instance) -> float:
        """What the prices take from the sum of all tasks' costs to make it a bound."""
        return float(self.learners.sum()) + (self.money * instance.budget if self.money else 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Rows by task, then by target.

    Attributes:
        tasks: of each row.
        low: the least target.
        high: the largest.
        most: capacities by `high`, by row and learner; 0 where a learner cannot be in the task.
        shard_prices: λ, whichever is known.
    """

    instance: Instance
    tasks: Indices
    low: Floats
    high: Floats
    most: Floats
    shard_prices: Floats

    @classmethod
    def cover(cls, instance: Instance, low: Floats, high: Floats, num_each: int) -> Cells:
        """So many cells of equal width for each task, from its least to its largest target."""
        edges = np.linspace(low, high, num_each + 1)
        tasks = np.repeat(np.arange(instance.num_tasks), num_each)
        return cls._of(instance, tasks, edges[:-1].T.ravel(), edges[1:].T.ravel(), np.zeros(len(tasks)))

    @classmethod
    def _of(cls, instance: Instance, tasks: Indices, low: Floats, high: Floats, shard_prices: Floats) -> Cells:
        """Cells shrunk to the first and last moment in them at which some learner can be done."""
        fixed, unit = instance.fixed_seconds[tasks], instance.unit_seconds[tasks]
        most = instance.capacities(tasks, high)
        up = np.maximum(instance.least, np.ceil((low[:, None] * (1 - TOLERANCE) - fixed) / unit))
        first = np.maximum(low * (1 - TOLERANCE), (fixed + unit * up).min(axis=1))
        down = np.where(most > 0, fixed + unit * np.floor((high[:, None] * (1 + TOLERANCE) - fixed) / unit), 0.0)
        last = np.minimum(high, down.max(axis=1))
        kept = (first <= last * (1 + 2 * TOLERANCE)) & (most.sum(axis=1) >= instance.shards[tasks])
        return cls(
            instance=instance,
            tasks=tasks[kept],
            low=np.minimum(first, last)[kept],
            high=last[kept],
            most=most[kept],
            shard_prices=shard_prices[kept],
        )

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def starts(self) -> Indices:
        """Where each task's rows begin, and where the last one's end."""
        return np.searchsorted(self.tasks, np.arange(self.instance.num_tasks + 1))

    @property
    def is_complete(self) -> bool:
        """Whether each task has a cell left; if not, no plan is in the cells."""
        return bool(np.all(np.diff(self.starts) > 0))

    def take(self, kept: Bools | Indices) -> Cells:
        """Some of the rows, in their order."""
        return Cells(
            instance=self.instance,
            tasks=self.tasks[kept],
            low=self.low[kept],
            high=self.high[kept],
            most=self.most[kept],
            shard_prices=self.shard_prices[kept],
        )

    def split(self, wide: Bools) -> Cells:
        """The wide ones in a few equal parts, the others as they are."""
        edges = np.linspace(self.low[wide], self.high[wide], _NUM_PARTS + 1)
        parts = Cells._of(
            self.instance,
            np.tile(self.tasks[wide], _NUM_PARTS),
            edges[:-1].ravel(),
            edges[1:].ravel(),
            np.tile(self.shard_prices[wide], _NUM_PARTS),
        )
        rest = self.take(~wide)
        low = np.concatenate([rest.low, parts.low])
        tasks = np.concatenate([rest.tasks, parts.tasks])
        order = np.lexsort((low, tasks))
        return Cells(
            instance=self.instance,
            tasks=tasks[order],
            low=low[order],
            high=np.concatenate([rest.high, parts.high])[order],
            most=np.concatenate([rest.most, parts.most])[order],
            shard_prices=np.concatenate([rest.shard_prices, parts.shard_prices])[order],
        )

    def values(self, prices: Prices) -> Floats:
        """A bound from below on the cost of each row's task, by the shard prices that are known."""
        if prices.money or prices.learners.min(initial=0.0) < 0 or self.shard_prices.min(initial=0.0) < 0:
            money = prices.money * self.instance.prices - self.shard_prices[:, None]
            worth = prices.learners + np.minimum(money * self.instance.least, money * self.most)
            worth = np.where(self.most > 0, np.minimum(worth, 0.0), 0.0)
        else:  # the same in fewer steps
            worth = np.multiply(self.most, -self.shard_prices[:, None])
            worth += prices.learners
            np.minimum(worth, 0.0, out=worth)
        values: Floats = self.low + self.shard_prices * self.instance.shards[self.tasks] + worth.sum(axis=1)
        return values

    def best_shares(self, prices: Prices) -> tuple[Floats, Floats, Floats]:
        """The best shard price of each row, what part of each learner the task takes at it, and how many shards."""
        instance, most, least = self.instance, self.most, float(self.instance.least)
        learner_prices = np.broadcast_to(prices.learners, most.shape)
        money = prices.money * instance.prices
        is_able = most > 0
        # a learner that costs something is taken as a whole; one that is better taken joins early, with its least
        is_dear = learner_prices >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            joins = np.where(is_dear, money + learner_prices / most, money + learner_prices / least)
        joins = np.where(is_able, joins, np.inf)
        events, steps = joins, np.where(is_able, np.where(is_dear, most, np.minimum(least, most)), 0.0)
        if not is_dear.all():
            extends = np.where(is_able & ~is_dear, money, np.inf)
            events = np.concatenate([joins, extends], axis=1)
            steps = np.concatenate([steps, np.where(is_able & ~is_dear, most - least, 0.0)], axis=1)
        order = np.argsort(events, axis=1)
        sums = np.cumsum(np.take_along_axis(steps, order, axis=1), axis=1)
        needed = instance.shards[self.tasks]
        rows = np.arange(len(self))
        last_place = np.argmax(sums >= needed[:, None], axis=1)
        last = order[rows, last_place]
        taken = np.zeros_like(events)
        np.put_along_axis(taken, order, (np.arange(events.shape[1]) < last_place[:, None]).astype(float), axis=1)
        taken[rows, last] = (needed - (sums[rows, last_place] - steps[rows, last])) / steps[rows, last]
        num_learners = instance.num_learners
        shards = (taken * steps)[:, :num_learners]
        if events.shape[1] > num_learners:
            shards = shards + (taken * steps)[:, num_learners:]
        parts = np.where(is_able, taken[:, :num_learners], 0.0)
        return events[rows, last], parts, shards
