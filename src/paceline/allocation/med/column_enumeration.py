"""Column enumeration: all sets of learners, with targets, that a plan better than the best known can be made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.allocation.med.instance import Bools, Floats, Indices, Instance
from paceline.allocation.med.knapsack import Knapsacks
from paceline.allocation.med.lagrangian import Bound, first_of_least
from paceline.allocation.med.limit import Limit
from paceline.allocation.rounding import TOLERANCE

_BLOCK = 64  # intervals that are enumerated at a time: most sets are left out as soon as their true cost is known
_MAX_IN_BLOCK = 500_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Sets of learners with a target, a row each.

    Attributes:
        tasks: task of each set.
        members: whether a learner is in the set, by learner.
        targets: targets in seconds.
        costs: costs of the task's shards.
    """

    tasks: Indices
    members: Bools
    targets: Floats
    costs: Floats

    @classmethod
    def join(cls, parts: Sequence[Columns]) -> Columns:
        """Join the rows of all parts, of which there is at least one."""
        return cls(**{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])})

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, kept: Bools | Indices) -> Columns:
        """Select rows."""
        return Columns(**{name: values[kept] for name, values in vars(self).items()})


def enumerate_columns(
    bound: Bound, knapsacks: Knapsacks, best_known: float, *, part: float, max_columns: int, limit: Limit
) -> Columns | None:
    """Enumerate sets that cost no more than their task's cheapest and a part of the gap; None if they are too many.

    With all of the gap, no other set is in a better plan: at these prices, it would cost more by itself than a better
    plan can cost more than the bound. The intervals must be single moments.
    """
    instance, prices = bound.intervals.instance, bound.prices
    values = knapsacks.values
    task_values = values[first_of_least(values, bound.intervals.starts)]
    gap = best_known - float(task_values.sum()) + prices.constant(instance)
    limits = task_values + part * gap + TOLERANCE * best_known
    found: list[Columns] = []
    for task in range(instance.num_tasks):
        rows = np.flatnonzero((bound.intervals.tasks == task) & (values <= limits[task]))
        blocks: list[Columns] = []
        for first in range(0, len(rows), _BLOCK):
            sets = knapsacks.within(rows[first : first + _BLOCK], float(limits[task]), _MAX_IN_BLOCK)
            if sets is None or not limit.spend():
                return None
            own, members = sets
            columns = _possible(instance, task, members, bound.intervals.high[own])
            cost = columns.targets + columns.members @ prices.learners + prices.money * columns.costs
            blocks.append(_undominated(columns.take(cost <= limits[task])))
            if sum(map(len, [*found, *blocks])) > max_columns:
                return None
        found.append(_undominated(Columns.join(blocks)))
    return Columns.join(found)


def _possible(instance: Instance, task: int, members: Bools, targets: Floats) -> Columns:
    """Keep the pairs of set and target by which it can do the task, with the cost if the budget matters."""
    most = np.where(members, instance.capacities(task, targets), 0.0)
    possible = most.sum(axis=1) >= instance.shards[task]
    if not instance.may_idle:
        sizes = members.sum(axis=1)
        possible &= ((most > 0).sum(axis=1) == sizes) & (sizes * instance.least <= instance.shards[task])
    members, targets = members[possible], targets[possible]
    costs = np.zeros(len(members))
    if not instance.has_ample_budget:
        costs = instance.cheapest_counts(task, members, targets) @ instance.prices
    return Columns(tasks=np.full(len(members), task), members=members, targets=targets, costs=costs)


def _undominated(columns: Columns) -> Columns:
    """Drop the rows of one task for which the same set has an earlier target that costs as little."""
    packed = np.ascontiguousarray(np.packbits(columns.members, axis=1))
    _, numbers = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_inverse=True)
    order = np.lexsort((columns.costs, columns.targets, numbers))
    kept, least, last = [], np.inf, -1
    for place, number, cost in zip(order.tolist(), numbers[order].tolist(), columns.costs[order].tolist(), strict=True):
        if number != last or cost < least * (1 - TOLERANCE):
            kept.append(place)
            least, last = cost, number
    return columns.take(np.array(kept, dtype=np.intp))
