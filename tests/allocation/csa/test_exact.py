"""The core on arrays: any unit, limits of each learner's own, and what is said of the sum of local epochs."""

import itertools
import random

import numpy as np

from paceline.allocation.csa import exact
from paceline.allocation.csa.exact import CyclePlan, find_conflict, least_staleness
from paceline.allocation.csa.steps import Steps
from paceline.allocation.cycle_problem import Conflict


def solve(*, total, min_local_epochs=1, **fleet):
    steps = Steps(**fleet)
    return find_conflict(steps, total, min_local_epochs) or least_staleness(steps, total, min_local_epochs)


def arrays(chance, num_learners, most):
    low = np.array([chance.randint(1, 2) for _ in range(num_learners)])
    return {
        "c2": np.array([10 ** chance.uniform(-1, 1) for _ in range(num_learners)]),
        "c1": np.array([chance.choice([0.0, 0.3]) for _ in range(num_learners)]),
        "c0": np.array([chance.uniform(0, 2) for _ in range(num_learners)]),
        "low": low,
        "high": low + np.array([chance.randint(0, most) for _ in range(num_learners)]),
        "cycle_seconds": chance.uniform(10, 60),
    }


def test_each_learner_may_have_limits_of_its_own():
    num_solved = 0
    for seed in range(150):
        chance = random.Random(seed)
        fleet = arrays(chance, num_learners := chance.randint(1, 4), 6)
        total = chance.randint(num_learners, 6 * num_learners)
        ranges = [range(low, high + 1) for low, high in zip(fleet["low"], fleet["high"], strict=True)]
        ways = [
            local_epochs
            for counts in itertools.product(*ranges)
            if sum(counts) == total and min(local_epochs := Steps(**fleet).local_epochs(np.array(counts))) >= 1
        ]
        answer = solve(**fleet, total=total)
        if not ways:
            assert isinstance(answer, Conflict)
            continue
        num_solved += 1
        assert isinstance(answer, CyclePlan)
        assert answer.is_sum_proven
        assert answer.counts.sum() == total
        assert ((fleet["low"] <= answer.counts) & (answer.counts <= fleet["high"])).all()
        assert (answer.local_epochs == Steps(**fleet).local_epochs(answer.counts)).all()
        best = min((max(way) - min(way), -sum(way)) for way in ways)
        assert (answer.staleness, -answer.local_epochs.sum()) == best, seed
    assert num_solved > 40


def test_conflicts_say_which_learner_or_how_much():
    fleet = {"c2": np.array([1.0, 4.0]), "c1": np.zeros(2), "c0": np.zeros(2), "cycle_seconds": 10.0}
    fleet |= {"low": np.array([1, 2]), "high": np.array([5, 5])}
    assert solve(**fleet, total=2) == Conflict(kind="least", most=2)
    assert solve(**fleet, total=11) == Conflict(kind="most", most=10)
    assert solve(**fleet, total=5, min_local_epochs=2) == Conflict(kind="learner", most=1, learner=1)
    assert solve(**fleet, total=8) == Conflict(kind="time", most=7)


def test_wide_windows_of_many_learners_are_still_the_smallest(monkeypatch):
    """With few options looked at, the staleness is the same; the sum is near the largest, and not called proven."""
    chance = random.Random(3)
    fleet = arrays(chance, 40, 300)
    fleet |= {"c2": fleet["c2"] * 1e-4, "high": fleet["low"] + 300}
    best = solve(**fleet, total=40 * 150)
    monkeypatch.setattr(exact, "MAX_OPTIONS", 200)
    hasty = solve(**fleet, total=40 * 150)
    assert best.staleness > 100
    assert (best.is_sum_proven, hasty.is_sum_proven) == (True, False)
    assert hasty.staleness == best.staleness
    assert hasty.counts.sum() == 40 * 150
    assert best.local_epochs.sum() * 0.99 <= hasty.local_epochs.sum() <= best.local_epochs.sum()
