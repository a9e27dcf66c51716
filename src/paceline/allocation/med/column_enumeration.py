"""Column enumeration: all sets of learners, with targets, that a plan better than the best known can be made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.allocation.med.instance import Bools, Floats, Indices, Instance
from paceline.allocation.med.knapsack import Knapsacks
from paceline.allocation.med.lagrangian import Bound, first_of_least
from paceline.allocation.med.limit import Limit
from paceline.allocation.med.plans import least_costs
from paceline.allocation.rounding import TOLERANCE

_BLOCK = 64  # intervals that are enumerated at a time: most sets are left out as soon as their true cost is known
_MAX_IN_BLOCK = 500_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Sets of learners with a target, a row each.

    Attributes:
        tasks: that a set is for.
        members: of the set, by learner.
        targets: in seconds.
        costs: of the task's shards.
    """

    tasks: Indices
    members: Bools
    targets: Floats
    costs: Floats

    @classmethod
    def join(cls, parts: Sequence[Columns]) -> Columns:
        """Join the rows of all parts, of which there is at least one."""
        return cls(
            tasks=np.concatenate([part.tasks for part in parts]),
            members=np.concatenate([part.members for part in parts]),
            targets=np.concatenate([part.targets for part in parts]),
            costs=np.concatenate([part.costs for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, kept: Bools | Indices) -> Columns:
        """Select rows."""
        return Columns(
            tasks=self.tasks[kept], members=self.members[kept], targets=self.targets[kept], costs=self.costs[kept]
        )


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
            if instance.has_ample_budget:
                columns = _earliest(instance, task, members)
            else:
                columns = _affordable(instance, task, members, bound.intervals.high[own])
            cost = columns.targets + columns.members @ prices.learners + prices.money * columns.costs
            blocks.append(columns.take(cost <= limits[task]))
            if sum(map(len, [*found, *blocks])) > max_columns:
                return None
        found.append(_undominated(Columns.join(blocks)))
    return Columns.join(found)


def _earliest(instance: Instance, task: int, members: Bools) -> Columns:
    """Give each set, once, its least target; what it costs does not matter."""
    _, places = np.unique(_keys(members), return_index=True)
    sets = members[places]
    targets = instance.fewest_seconds(task, sets)
    return Columns(tasks=np.full(len(sets), task), members=sets, targets=targets, costs=np.zeros(len(sets)))


def _affordable(instance: Instance, task: int, members: Bools, targets: Floats) -> Columns:
    """Keep the pairs of set and target by which it can do the task, with what that costs."""
    most = np.where(members, instance.capacities(task, targets), 0.0)
    possible = most.sum(axis=1) >= instance.shards[task]
    if not instance.may_idle:
        sizes = members.sum(axis=1)
        possible &= ((most > 0).sum(axis=1) == sizes) & (sizes * instance.least <= instance.shards[task])
    members, targets = members[possible], targets[possible]
    costs = least_costs(instance, task, members, targets)
    return Columns(tasks=np.full(len(members), task), members=members, targets=targets, costs=costs)


def _undominated(columns: Columns) -> Columns:
    """Drop the rows of one task for which the same set has an earlier target that costs as little."""
    _, numbers = np.unique(_keys(columns.members), return_inverse=True)
    order = np.lexsort((columns.costs, columns.targets, numbers))
    kept, least, last = [], np.inf, -1
    for place, number, cost in zip(order.tolist(), numbers[order].tolist(), columns.costs[order].tolist(), strict=True):
        if number != last or cost < least * (1 - TOLERANCE):
            kept.append(place)
            least, last = cost, number
    return columns.take(np.array(kept, dtype=np.intp))


def _keys(members: Bools) -> Bools:
    """Pack each set into one value, to be compared."""
    packed = np.packbits(members, axis=1)
    keys: Bools = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    return keys
