"""All sets of learners, with targets, that a plan better than the best known can be made of."""

from __future__ import annotations

import numpy as np

from paceline.allocation.med.covers import Covers
from paceline.allocation.med.dual import Bound, first_of_least
from paceline.allocation.med.instance import Bools, Floats, Indices, Instance
from paceline.allocation.med.master import Choices
from paceline.allocation.med.plans import least_costs
from paceline.allocation.rounding import TOLERANCE


def list_sets(bound: Bound, covers: Covers, best_known: float, *, part: float, max_sets: int) -> Choices | None:
    """The sets that cost no more than their task's cheapest and a part of the gap; None if they are too many.

    With all of the gap, no other set is in a better plan: at these prices, it would cost more by itself than a better
    plan can cost more than the bound. The cells must be single moments.
    """
    instance, prices = bound.cells.instance, bound.prices
    values = covers.values
    task_values = values[first_of_least(values, bound.cells.starts)]
    gap = best_known - float(task_values.sum()) + prices.constant(instance)
    limits = task_values + part * gap + TOLERANCE * best_known
    found = covers.within(limits[bound.cells.tasks], max_sets)
    if found is None:
        return None
    rows, members = found
    lists: list[Choices] = []
    for task in range(instance.num_tasks):
        own = bound.cells.tasks[rows] == task
        if instance.has_ample_budget:
            choices = _earliest(instance, task, members[own])
        else:
            choices = _affordable(instance, task, members[own], bound.cells.high[rows[own]])
        values = choices.targets + choices.members @ prices.learners + prices.money * choices.costs
        lists.append(choices.take(values <= limits[task]))
    return Choices(
        tasks=np.concatenate([choices.tasks for choices in lists]),
        members=np.concatenate([choices.members for choices in lists]),
        targets=np.concatenate([choices.targets for choices in lists]),
        costs=np.concatenate([choices.costs for choices in lists]),
    )


def _earliest(instance: Instance, task: int, members: Bools) -> Choices:
    """Each set once, with its least target; what it costs does not matter."""
    _, places = np.unique(_keys(members), return_index=True)
    sets = members[places]
    targets = instance.fewest_seconds(task, sets)
    return Choices(tasks=np.full(len(sets), task), members=sets, targets=targets, costs=np.zeros(len(sets)))


def _affordable(instance: Instance, task: int, members: Bools, targets: Floats) -> Choices:
    """Each set with those of the targets by which it can do the task, if no earlier one costs as little."""
    most = np.where(members, instance.capacities(np.full(len(targets), task), targets), 0.0)
    possible = most.sum(axis=1) >= instance.shards[task]
    if not instance.may_idle:
        sizes = members.sum(axis=1)
        possible &= ((most > 0).sum(axis=1) == sizes) & (sizes * instance.least <= instance.shards[task])
    members, targets = members[possible], targets[possible]
    costs = least_costs(instance, task, members, targets)
    choices = Choices(tasks=np.full(len(members), task), members=members, targets=targets, costs=costs)
    _, numbers = np.unique(_keys(members), return_inverse=True)
    order = np.lexsort((costs, targets, numbers))
    return choices.take(order[_is_cheaper(numbers[order], costs[order])])


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
