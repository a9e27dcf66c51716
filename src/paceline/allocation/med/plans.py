"""From learners in tasks to whole shards: the least targets, raised where the budget asks for it."""

from __future__ import annotations

import numpy as np

from paceline.allocation.med.instance import Bools, Floats, Indices, Instance, Plan
from paceline.allocation.rounding import TOLERANCE

_MAX_TARGETS = 2_000  # of one set of learners; if there are more, some are left out
_BISECTIONS = 60


def plan_for(instance: Instance, tasks: Indices) -> Plan | None:
    """Plan with these learners in these tasks in the least time; None if no way to keep all constraints is found.

    If the budget asks for later targets, those are good ones, but not always the best.
    """
    sets = instance.sets_of(tasks)
    targets = np.array([instance.fewest_seconds(task, own[None, :])[0] for task, own in enumerate(sets)])
    if not np.isfinite(targets).all():
        return None
    plan = Plan.of(instance, sets, targets)
    if plan.cost <= instance.budget * (1 + TOLERANCE):
        return plan
    frontiers = [_frontier(instance, task, own, float(targets[task])) for task, own in enumerate(sets)]
    cheaper = _within_budget(instance, frontiers)
    return None if cheaper is None else Plan.of(instance, sets, cheaper)


def _frontier(instance: Instance, task: int, members: Bools, earliest: float) -> tuple[Floats, Floats]:
    """Targets and costs of a set of learners, later and cheaper from one to the next."""
    targets = _targets(instance, task, np.flatnonzero(members), earliest)
    costs = instance.cheapest_counts(task, members, targets) @ instance.prices
    is_cheaper = np.append(True, costs[1:] < np.minimum.accumulate(costs)[:-1] * (1 - TOLERANCE))
    return targets[is_cheaper], costs[is_cheaper]


def _targets(instance: Instance, task: int, own: Indices, earliest: float) -> Floats:
    """Moments when a learner is done with a shard, from the earliest target on; evenly spaced ones if too many."""
    fixed, unit = instance.fixed_seconds[task, own], instance.unit_seconds[task, own]
    latest = float(instance.deadlines[task])
    first = np.maximum(np.ceil((earliest - fixed) / unit), 1)
    num_each = np.clip(np.floor((latest * (1 + TOLERANCE) - fixed) / unit) - first + 1, 0, instance.shards[task])
    if num_each.sum() > _MAX_TARGETS:
        return np.linspace(earliest, latest, _MAX_TARGETS)
    places = np.arange(int(num_each.max(initial=0.0)))
    moments = (fixed + unit * first)[:, None] + unit[:, None] * places
    return np.unique(np.append(moments[places < num_each[:, None]], earliest))


def _within_budget(instance: Instance, frontiers: list[tuple[Floats, Floats]]) -> Floats | None:
    """Choose a target of each frontier so that all cost no more than the budget, by a price of money; None if none."""
    budget = instance.budget * (1 + TOLERANCE)

    def choose(price: float) -> list[int]:
        return [int(np.argmin(targets + price * costs)) for targets, costs in frontiers]

    def cost_of(chosen: list[int]) -> float:
        return float(sum(costs[place] for (_, costs), place in zip(frontiers, chosen, strict=True)))

    low, high, chosen = 0.0, 1.0, [len(costs) - 1 for _, costs in frontiers]
    if cost_of(chosen) > budget:
        return None
    while cost_of(choose(high)) > budget and high < 1e12:
        low, high = high, high * 4
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if cost_of(choose(middle)) > budget:
            low = middle
        else:
            high, chosen = middle, choose(middle)
    # what is left of the budget brings some targets forward
    left = budget - cost_of(chosen)
    for task in np.argsort([-targets[place] for (targets, _), place in zip(frontiers, chosen, strict=True)]):
        costs = frontiers[task][1]
        place = int(np.argmax(costs <= costs[chosen[task]] + left))
        left -= costs[place] - costs[chosen[task]]
        chosen[task] = place
    return np.array([targets[place] for (targets, _), place in zip(frontiers, chosen, strict=True)])
