"""What to do with learners when a solver fails: leave them where they are or, if nobody was placed, do one job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from paceline.allocation.pool import Assignment, Demand, Placement


def assign_unsolved(
    demands: Sequence[Demand], last: Mapping[str, Placement], budget: float, failure: str
) -> Assignment:
    """Keep the last placing as far as it still holds; if none of it does, share out the first job that can be paid.

    Args:
        last: the last placing, by learner.
        budget: most that a round of every job may cost.
        failure: error of the solver.
    """
    jobs = {demand.job for demand in demands}
    prices = {candidate.name: candidate.price for candidate in demands[0].candidates} if demands else {}
    kept = {name: placement for name, placement in last.items() if name in prices and placement.job in jobs}
    if math.fsum(placement.num_shards * prices[name] for name, placement in kept.items()) > budget:
        kept = {}
    if not kept:
        kept = next(filter(None, (_shared_out(demand, budget) for demand in demands)), {})
    placed = {placement.job for placement in kept.values()}
    return Assignment(
        placements=kept,
        cost=math.fsum(placement.num_shards * prices[name] for name, placement in kept.items()),
        waiting=tuple(demand.job for demand in demands if demand.job not in placed),
        failure=failure,
    )


def _shared_out(demand: Demand, budget: float) -> dict[str, Placement]:
    """Share out a job evenly among those who have measured themselves for it, as far as they can be paid."""
    able = [one for one in demand.candidates if one.outlook and one.most_shards(demand.terms) > 0]
    shared, num_left, money = dict[str, Placement](), demand.terms.num_shards, budget
    for place, one in enumerate(sorted(able, key=lambda one: one.price)):
        count = min(one.most_shards(demand.terms), math.ceil(num_left / (len(able) - place)))
        if one.price * count > money:
            count = int(money / one.price)
        if count > 0:
            shared[one.name] = Placement(demand.job, count)
            num_left, money = num_left - count, money - count * one.price
    return shared
