"""Steps on arrays are those of `CycleProblem`, to the last bit."""

import random

import numpy as np

from paceline.allocation.csa import CsaProblem
from paceline.allocation.csa.steps import Steps, total_of
from paceline.allocation.cycle_problem import CycleLearner
from tests.allocation.cycles import exact_learner, learner, small_fields


def test_local_epochs_are_those_of_the_problem():
    chance = random.Random(0)
    learners = [
        *(learner(chance, number) for number in range(300)),
        *(exact_learner(chance, number) for number in range(300, 600)),
        CycleLearner(name="instant", c2=5e-324),
        CycleLearner(name="never", c2=1e15, c1=1e15, c0=1e15),
    ]
    for cycle_seconds in (0.5, 3.0, 1e15):
        problem = CsaProblem(samples=10**15, cycle_seconds=cycle_seconds, learners=learners)
        steps = Steps.of(problem)
        for most in (3, 100, 10**6, 10**15):
            counts = np.array([chance.randint(1, most) for _ in learners])
            expected = [problem.local_epochs(own, count) for own, count in zip(learners, counts.tolist(), strict=True)]
            assert steps.local_epochs(counts).tolist() == expected


def test_the_most_samples_for_local_epochs():
    for seed in range(200):
        problem = CsaProblem(**small_fields(random.Random(seed)))
        steps = Steps.of(problem)
        for wanted in (0, 1, 2, 3, 7, 50, 10**15, 10**15 + 1):
            expected = [
                max((n for n in range(low, high + 1) if problem.local_epochs(own, n) >= wanted), default=low - 1)
                for own, low, high in zip(problem.learners, steps.low.tolist(), steps.high.tolist(), strict=True)
            ]
            assert steps.most_for(wanted).tolist() == expected, (seed, wanted)


def test_the_most_samples_are_found_where_digits_are_few():
    """One more is too many, one less is not, however large the numbers."""
    chance = random.Random(1)
    learners = [
        CycleLearner(name=f"w{n}", c2=10 ** chance.uniform(-15, 0), c1=chance.choice([0, 1e-15])) for n in range(300)
    ]
    steps = Steps.of(CsaProblem(samples=10**15, cycle_seconds=1e10, learners=learners))
    for wanted in (1, 3, 10**5, 10**9):
        counts = steps.most_for(wanted)
        inside = (counts >= steps.low) & (counts < steps.high)
        assert inside.any()
        assert (steps.local_epochs(np.maximum(counts, 1))[inside] >= wanted).all()
        assert (steps.local_epochs(counts + 1)[inside] < wanted).all()


def test_sums_beyond_64_bits():
    assert total_of(np.full(100_000, 10**15)) == 10**20
    assert total_of(np.array([-5, 3, 10**15])) == 10**15 - 2
