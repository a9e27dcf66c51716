"""Covering knapsacks: sets of whole learners that a task could take by a target, the cheapest and all cheap ones.

By a target, a set S of learners costs at least constant + Σ_{j∈S} weight_j, and its capacities must add up to the
task's shards. Dynamic programming over what is still needed solves that: entry (j, t) of a table is the least weight
that covers t with the learners from j on. With the table, all sets below a limit can be enumerated without a dead end.

Where shards are many, they are counted in larger units, capacities rounded up and shards down. That allows too much,
so a bound stays a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.allocation.med.instance import Bools, Floats, Indices
from paceline.allocation.med.intervals import Intervals, Prices

_MAX_UNITS = 300  # that a task's shards are counted in


def table_size(intervals: Intervals) -> float:
    """Count the numbers in the tables of all intervals."""
    units = np.minimum(intervals.instance.shards.max(), _MAX_UNITS)
    return float(len(intervals) * (intervals.instance.num_learners + 1) * (units + 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Knapsacks:
    """Tables of some intervals, a row each.

    Attributes:
        weights: weights of learners, by row; infinite where one cannot be in the task.
        constants: constants of rows, with the least target in them.
        most: capacities in units, by row and learner.
        needed: units that are needed, by row.
        tables: least weights by learner, row and needed units; one more than there are learners.
    """

    weights: Floats
    constants: Floats
    most: Indices
    needed: Indices
    tables: Floats

    @classmethod
    def of(cls, intervals: Intervals, prices: Prices) -> Knapsacks:
        """Fill the tables of all rows."""
        instance = intervals.instance
        shards = instance.shards[intervals.tasks]
        units = np.ceil(shards / _MAX_UNITS)
        # with whole shards and no price of money, the constraint itself does more than any price of a shard
        shard_prices = np.where((units > 1) | (prices.money > 0), intervals.shard_prices, 0.0)
        money = prices.money * instance.prices - shard_prices[:, None]
        weights = prices.learners + np.minimum(money * instance.least, money * intervals.most)
        weights = np.where(intervals.most > 0, weights, np.inf)
        most = np.ceil(intervals.most / units[:, None]).astype(np.intp)
        needed = np.floor(shards / units).astype(np.intp)
        counts = np.arange(int(needed.max(initial=0)) + 1)
        tables = np.empty((instance.num_learners + 1, len(intervals), len(counts)))
        tables[-1] = np.where(counts > 0, np.inf, 0.0)
        for learner in reversed(range(instance.num_learners)):
            after = tables[learner + 1]
            left = np.maximum(counts - most[:, learner, None], 0)
            taken = weights[:, learner, None] + np.take_along_axis(after, left, axis=1)
            np.minimum(after, taken, out=tables[learner])
        constants = intervals.low + shard_prices * shards
        return cls(weights=weights, constants=constants, most=most, needed=needed, tables=tables)

    @property
    def values(self) -> Floats:
        """Least cost of each row, whole learners only; infinite if they do not suffice."""
        values: Floats = self.constants + self.tables[0][np.arange(len(self.needed)), self.needed]
        return values

    def cheapest(self, rows: Indices) -> Bools:
        """Find the cheapest set of each of some rows."""
        left = self.needed[rows].copy()
        members = np.zeros((len(rows), self.weights.shape[1]), dtype=bool)
        for learner in range(self.weights.shape[1]):
            rest = np.maximum(left - self.most[rows, learner], 0)
            taken = self.weights[rows, learner] + self.tables[learner + 1][rows, rest]
            members[:, learner] = taken < self.tables[learner + 1][rows, left]
            left = np.where(members[:, learner], rest, left)
        return members

    def within(self, rows: Indices, limit: float, max_sets: int) -> tuple[Indices, Bools] | None:
        """Enumerate all sets of some rows that cost no more than a limit, as rows and members; None if too many."""
        left, spent = self.needed[rows].copy(), self.constants[rows].copy()
        members = np.zeros((len(rows), self.weights.shape[1]), dtype=bool)
        for learner in range(self.weights.shape[1]):
            after = self.tables[learner + 1]
            rest = np.maximum(left - self.most[rows, learner], 0)
            more = spent + self.weights[rows, learner]
            with_it = np.flatnonzero(more + after[rows, rest] <= limit)
            without = np.flatnonzero(spent + after[rows, left] <= limit)
            parents = np.concatenate([with_it, without])
            if len(parents) > max_sets:
                return None
            left = np.concatenate([rest[with_it], left[without]])
            spent = np.concatenate([more[with_it], spent[without]])
            rows, members = rows[parents], members[parents]
            members[: len(with_it), learner] = True
        return rows, members
