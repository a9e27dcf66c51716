"""The paper's own methods: they find allocations, near the best ones, and claim no more than they know."""

import random

import numpy as np
import pytest

from paceline.allocation.csa import CsaProblem, RelaxedCsaProblem, SuggestedCsaProblem
from paceline.allocation.csa.relaxed import relaxed_counts
from paceline.allocation.csa.repair import repair
from paceline.allocation.csa.steps import Steps
from paceline.allocation.csa.suggest import suggested_counts
from paceline.allocation.cycle_problem import CycleLearner


def paper_fields(seed, *, is_data_sent, num_learners=12):
    """Twelve learners of the paper: half of 2.4 GHz, half of 0.7 GHz, links of 5 to 100 Mbit/s."""
    chance = random.Random(seed)
    rates = [chance.uniform(5e6, 100e6) for _ in range(num_learners)]
    learners = [
        CycleLearner(
            name=f"w{number}",
            c2=1_123_736 / (2.4e9 if number % 2 else 0.7e9),
            c1=6272 / rate if is_data_sent else 0.0,
            c0=2 * 8_974_080 / rate,
        )
        for number, rate in enumerate(rates)
    ]
    return {"samples": 3000 * num_learners, "cycle_seconds": chance.uniform(7.5, 30), "learners": learners}


@pytest.mark.parametrize("is_data_sent", [True, False])
@pytest.mark.parametrize("kind", [RelaxedCsaProblem, SuggestedCsaProblem])
def test_both_scenarios(kind, is_data_sent):
    for seed in range(6):
        fields = paper_fields(seed, is_data_sent=is_data_sent)
        best, reply = CsaProblem(**fields).solve(), kind(**fields).solve()
        assert best.objective <= reply.objective <= best.objective + 1
        assert (reply.bound, reply.status) == (0, "feasible" if reply.objective else "optimal")
        assert sum(share.samples for share in reply.allocation) == fields["samples"]


@pytest.mark.parametrize("suggest", [lambda s, d: relaxed_counts(s, d, 1), suggested_counts])
def test_real_shares_of_equal_local_epochs(suggest):
    problem = CsaProblem(**paper_fields(0, is_data_sent=True))
    steps = Steps.of(problem)
    counts = suggest(steps, problem.samples)
    assert counts.sum() == pytest.approx(problem.samples)
    local_epochs = (steps.left_seconds / counts - steps.c1) / steps.c2
    assert local_epochs.max() - local_epochs.min() < 0.01


def test_repair_gives_what_is_left_to_the_largest_fractions():
    steps = Steps.of(CsaProblem(samples=12, cycle_seconds=100, learners=[CycleLearner(name=n, c2=1) for n in "abc"]))
    assert repair(steps, np.array([3.2, 4.7, 3.9]), 12, 1).tolist() == [3, 5, 4]
    assert repair(steps, np.array([0.2, 0.7, 0.1]), 12, 1).tolist() == [4, 4, 4]
    assert repair(steps, np.array([9.0, 9.0, 1.0]), 12, 1).tolist() == [5, 6, 1]
    assert repair(steps, np.array([2.9, 2.9, 6.2]), 12, 20).tolist() == [4, 3, 5]  # 5 is the most for 20 local epochs
