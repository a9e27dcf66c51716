"""Sets of learners that a task could take in a cell, whole ones now: the cheapest, and all that are cheap enough.

In a cell, a set S costs at least constant + Σ_{j∈S} weight_j, and its capacities must add up to the shards. That is a
knapsack to be covered, which a table over what is still needed solves: entry (j, t) is the least weight that covers t
with the learners from j on. With the table, sets below a limit can be listed without ever going astray.

Where shards are many, they are counted in larger units, capacities rounded up and shards down. That allows too much,
so a bound stays a bound; it is then the weaker one with fractions of learners (`cells`) that does most of the work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.allocation.med.cells import Cells, Prices
from paceline.allocation.med.instance import Bools, Floats, Indices

MAX_UNITS = 300
"""That a task's shards are counted in."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Covers:
    """The tables of some cells.

    Attributes:
        weights: of learners, by row; infinite where one cannot be in the task.
        constants: of rows, with the least target in them.
        most: capacities in units, by row and learner.
        needed: units, by row.
        tables: by learner, row and units that are needed; one more than there are learners.
    """

    weights: Floats
    constants: Floats
    most: Indices
    needed: Indices
    tables: Floats

    @classmethod
    def of(cls, cells: Cells, prices: Prices) -> Covers:
        """The tables of all rows."""
        instance = cells.instance
        shards = instance.shards[cells.tasks]
        units = np.ceil(shards / MAX_UNITS)
        # with whole shards and no price of money, the constraint itself does more than any price of a shard
        shard_prices = np.where((units > 1) | (prices.money > 0), cells.shard_prices, 0.0)
        money = prices.money * instance.prices - shard_prices[:, None]
        weights = prices.learners + np.minimum(money * instance.least, money * cells.most)
        weights = np.where(cells.most > 0, weights, np.inf)
        most = np.ceil(cells.most / units[:, None]).astype(np.intp)
        needed = np.floor(shards / units).astype(np.intp)
        tables = np.empty((instance.num_learners + 1, len(cells), int(needed.max(initial=0)) + 1))
        tables[-1] = np.where(np.arange(tables.shape[2]) > 0, np.inf, 0.0)
        counts = np.arange(tables.shape[2])
        for learner in reversed(range(instance.num_learners)):
            after = tables[learner + 1]
            left = np.maximum(counts - most[:, learner, None], 0)
            taken = weights[:, learner, None] + np.take_along_axis(after, left, axis=1)
            np.minimum(after, taken, out=tables[learner])
        return cls(
            weights=weights, constants=cells.low + shard_prices * shards, most=most, needed=needed, tables=tables
        )

    @property
    def values(self) -> Floats:
        """The least that each row costs, whole learners only; infinite if they do not suffice."""
        least = self.tables[0][np.arange(len(self.needed)), self.needed]
        values: Floats = self.constants + least
        return values

    def cheapest(self, rows: Indices) -> Bools:
        """The cheapest set of some rows, one each."""
        left = self.needed[rows].copy()
        members = np.zeros((len(rows), self.weights.shape[1]), dtype=bool)
        for learner in range(self.weights.shape[1]):
            rest = np.maximum(left - self.most[rows, learner], 0)
            taken = self.weights[rows, learner] + self.tables[learner + 1][rows, rest]
            members[:, learner] = taken < self.tables[learner + 1][rows, left]
            left = np.where(members[:, learner], rest, left)
        return members

    def within(self, rows: Indices, limit: float, max_sets: int) -> tuple[Indices, Bools] | None:
        """All sets of some rows that cost no more than a limit, as rows and members; None if they are too many."""
        left, spent = self.needed[rows].copy(), self.constants[rows].copy()
        steps: list[tuple[Indices, Bools]] = []
        for learner in range(self.weights.shape[1]):
            after = self.tables[learner + 1]
            rest = np.maximum(left - self.most[rows, learner], 0)
            more = spent + self.weights[rows, learner]
            with_it = np.flatnonzero(more + after[rows, rest] <= limit)
            without = np.flatnonzero(spent + after[rows, left] <= limit)
            parents = np.concatenate([with_it, without])
            if len(parents) > max_sets:
                return None
            is_taken = np.arange(len(parents)) < len(with_it)
            steps.append((parents, is_taken))
            left = np.concatenate([rest[with_it], left[without]])
            spent = np.concatenate([more[with_it], spent[without]])
            rows = rows[parents]
        members = np.zeros((len(rows), self.weights.shape[1]), dtype=bool)
        places = np.arange(len(rows))
        for learner in reversed(range(self.weights.shape[1])):
            parents, is_taken = steps[learner]
            members[:, learner] = is_taken[places]
            places = parents[places]
        return rows, members
