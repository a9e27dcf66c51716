"""All sets of learners, with targets, that a plan better than the best known can be made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from paceline.allocation.med.covers import Covers
from paceline.allocation.med.dual import Bound, first_of_least
from paceline.allocation.med.instance import Bools, Floats, Indices, Instance
from paceline.allocation.med.master import Choices
from paceline.allocation.med.plans import least_costs
from paceline.allocation.rounding import TOLERANCE

_BLOCK = 64  # cells that are listed at a time: most sets are left out as soon as their true cost is known
_MAX_IN_BLOCK = 500_000


def list_sets(
    bound: Bound, covers: Covers, best_known: float, *, part: float, max_sets: int, is_over: Callable[[], bool]
) -> Choices | None:
    """The sets that cost no more than their task's cheapest and a part of the gap; None if they are too many.

    With all of the gap, no other set is in a better plan: at these prices, it would cost more by itself than a better
    plan can cost more than the bound. The cells must be single moments.
    """
    instance, prices = bound.cells.instance, bound.prices
    values = covers.values
    task_values = values[first_of_least(values, bound.cells.starts)]
    gap = best_known - float(task_values.sum()) + prices.constant(instance)
    limits = task_values + part * gap + TOLERANCE * best_known
    lists: list[Choices] = []
    for task in range(instance.num_tasks):
        rows = np.flatnonzero((bound.cells.tasks == task) & (values <= limits[task]))
        blocks: list[Choices] = []
        for first in range(0, len(rows), _BLOCK):
            found = covers.within(rows[first : first + _BLOCK], float(limits[task]), _MAX_IN_BLOCK)
            if found is None or is_over():
                return None
            own, members = found
            if instance.has_ample_budget:
                choices = _earliest(instance, task, members)
            else:
                choices = _affordable(instance, task, members, bound.cells.high[own])
            cost = choices.targets + choices.members @ prices.learners + prices.money * choices.costs
            blocks.append(choices.take(cost <= limits[task]))
            if sum(map(len, [*lists, *blocks])) > max_sets:
                return None
        lists.append(_undominated(Choices.join(blocks)))
    return Choices.join(lists)


def _earliest(instance: Instance, task: int, members: Bools) -> Choices:
    """Each set once, with its least target; what it costs does not matter."""
    _, places = np.unique(_keys(members), return_index=True)
    sets = members[places]
    targets = instance.fewest_seconds(task, sets)
    return Choices(tasks=np.full(len(sets), task), members=sets, targets=targets, costs=np.zeros(len(sets)))


def _affordable(instance: Instance, task: int, members: Bools, targets: Floats) -> Choices:
    """Each set with those of the targets by which it can do the task, and what that costs."""
    most = np.where(members, instance.capacities(np.full(len(targets), task), targets), 0.0)
    possible = most.sum(axis=1) >= instance.shards[task]
    if not instance.may_idle:
        sizes = members.sum(axis=1)
        possible &= ((most > 0).sum(axis=1) == sizes) & (sizes * instance.least <= instance.shards[task])
    members, targets = members[possible], targets[possible]
    costs = least_costs(instance, task, members, targets)
    return Choices(tasks=np.full(len(members), task), members=members, targets=targets, costs=costs)


def _undominated(choices: Choices) -> Choices:
    """Those of one task for which the same set has no earlier target that costs as little."""
    _, numbers = np.unique(_keys(choices.members), return_inverse=True)
    order = np.lexsort((choices.costs, choices.targets, numbers))
    return choices.take(order[_is_cheaper(numbers[order], choices.costs[order])])


def _is_cheaper(numbers: Indices, costs: Floats) -> Bools:
    """Whether a row costs less than all before it with the same number; rows are sorted by number."""
    kept = np.ones(len(costs), dtype=bool)
    least, last = np.inf, -1
    for place, (number, cost) in enumerate(zip(numbers.tolist(), costs.tolist(), strict=True)):
        if number != last:
            least, last = np.inf, number
        kept[place] = cost < least * (1 - TOLERANCE)
        least = min(least, cost)
    return kept


def _keys(members: Bools) -> Bools:
    """One value for each set, to be compared."""
    packed = np.packbits(members, axis=1)
    keys: Bools = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    return keys
