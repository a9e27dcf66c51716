"""Policies of pools on whatever may come up in one: they give a placing, or a reason why there is none."""

import random

import pytest

from paceline.allocation import Candidate, MedAllocation, MmttAllocation, RoundTerms
from paceline.allocation.pool import Demand, Placement
from paceline.allocation.unsolved import assign_unsolved
from paceline.devices.profiles import Outlook, Profile, Rate


def terms(chance):
    return RoundTerms(
        deadline_seconds=chance.choice([1e-6, 0.5, 5.0, 20.0, 1e6]),
        local_epochs=chance.choice([1, 65536]),
        model_bytes=chance.choice([0, 1000, 10**15]),
        shard_bytes=chance.choice([0, 1000]),
        shard_samples=chance.choice([1, 64, 10**15]),
        num_shards=chance.choice([1, 2, 23, 58]),
    )


def outlook(chance, states):
    rates = [Rate(chance.choice([1e-300, 1e-3, 1.0, 100.0, 1e15])) for _ in range(3)]
    profile = Profile(train=rates[0], down=rates[1], up=rates[2], latency_seconds=chance.choice([0.0, 1e15]))
    shares = {1: [1.0], 2: [1.0, 0.0]}[states]
    return tuple(Outlook(state=f"s{number}", probability=share, profile=profile) for number, share in enumerate(shares))


def demands(chance):
    num_learners = chance.randint(0, 5)
    prices = [chance.choice([0.0, 1e-300, 1.0, 3.0, 1e15]) for _ in range(num_learners)]
    are_alike = chance.random() < 0.3
    found = []
    for job in range(chance.randint(1, 4)):
        same = outlook(chance, 1)
        candidates = [
            Candidate(
                name=f"d{number}",
                outlook=chance.choice([(), same if are_alike else outlook(chance, chance.randint(1, 2))]),
                state=chance.choice(["s0", "s1", None]),
                price=price,
                max_shards=chance.choice([None, None, 1]),
            )
            for number, price in enumerate(prices)
        ]
        found.append(Demand(f"j{job}", terms(chance), candidates))
    return found


@pytest.mark.parametrize("kind", [MedAllocation, MmttAllocation])
def test_whatever_comes_up_there_is_a_placing_or_a_reason(kind):
    for seed in range(40):
        chance = random.Random(seed)
        wanted = demands(chance)
        policy = kind(budget=chance.choice([None, 0.0, 1.0, 60.0, 1e15]), min_shards=chance.randint(0, 3), max_steps=20)
        left = chance.choice([None, 0.0, 40.0])
        assignment = policy.assign(wanted, left)
        check(assignment, wanted, policy.budget, left)
        jobs, placed = {demand.job for demand in wanted}, {one.job for one in assignment.placements.values()}
        assert placed | set(assignment.waiting) == jobs
        assert set(assignment.hindered) <= set(assignment.waiting)
        if not placed and wanted[0].candidates:
            assert set(assignment.hindered) == jobs  # each has a reason
        check(assign_unsolved(wanted, {}, min(policy.budget or 1e300, left or 1e300), "it failed"), wanted, None, None)


def check(assignment, wanted, *budgets):
    prices = {one.name: one.price for one in wanted[0].candidates}
    cost = sum(placement.num_shards * prices[name] for name, placement in assignment.placements.items())
    assert all(budget is None or cost <= budget * (1 + 1e-6) for budget in budgets)
    for name, placement in assignment.placements.items():
        [demand] = [demand for demand in wanted if demand.job == placement.job]
        [candidate] = [one for one in demand.candidates if one.name == name]
        assert candidate.outlook
        assert 0 < placement.num_shards <= candidate.most_shards(demand.terms)


def simple(num_jobs, prices, *, num_shards=10):
    one = RoundTerms(
        deadline_seconds=5.0, local_epochs=1, model_bytes=0, shard_bytes=0, shard_samples=1, num_shards=num_shards
    )
    rate = Rate(100.0)
    known = (Outlook(state="idle", probability=1.0, profile=Profile(train=rate, down=rate, up=rate)),)
    candidates = [Candidate(name=f"d{number}", outlook=known, price=price) for number, price in enumerate(prices)]
    return [Demand(f"j{job}", one, candidates) for job in range(num_jobs)]


def test_without_a_solver_learners_stay_as_long_as_their_jobs_do():
    last = {"d0": Placement("j0", 4), "d1": Placement("gone", 6), "left": Placement("j0", 2)}
    kept = assign_unsolved(simple(2, [1.0, 1.0]), last, 100.0, "it failed")
    assert (dict(kept.placements), kept.cost, kept.waiting) == ({"d0": Placement("j0", 4)}, 4.0, ("j1",))
    assert kept.failure == "it failed"


def test_without_a_solver_nothing_is_placed_beyond_the_budget():
    last = {"d0": Placement("j0", 10)}
    anew = assign_unsolved(simple(1, [2.0, 1.0, 0.0]), last, 15.0, "it failed")
    assert {name: one.num_shards for name, one in anew.placements.items()} == {"d0": 3, "d1": 3, "d2": 4}
    assert assign_unsolved(simple(1, [2.0, 3.0]), {}, 1.0, "it failed").placements == {}
    assert assign_unsolved([], {}, 1.0, "it failed").placements == {}
