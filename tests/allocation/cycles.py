"""Problems of one cycle: drawn at random, and answered by trying everything."""

import random

import msgspec
import numpy as np

from paceline.allocation.csa.steps import Steps
from paceline.allocation.cycle_problem import CycleLearner

MOST_SAMPLES = {1: 60, 2: 60, 3: 45, 4: 28, 5: 20, 6: 15}
"""By learners, so that all ways to share them out can be tried."""


def small_fields(chance: random.Random) -> dict:
    """Fields of a problem of up to six learners; some have numbers that fit exactly, some no solution."""
    num_learners = chance.randint(1, 6)
    samples = chance.randint(num_learners, MOST_SAMPLES[num_learners])
    min_samples = chance.choice([1, 1, 1, 2, 3])
    equal = samples // num_learners
    draw = exact_learner if chance.random() < 0.4 else learner
    fields = {
        "samples": samples,
        "cycle_seconds": chance.choice([chance.uniform(1, 30), float(chance.randint(1, 30)), chance.uniform(20, 300)]),
        "min_samples": min_samples,
        "max_samples": chance.choice([None, None, max(min_samples, equal + chance.randint(0, equal))]),
        "min_iterations": chance.choice([0, 1, 1, 1, 2, 5]),
        "learners": [draw(chance, number) for number in range(num_learners)],
    }
    if chance.random() < 0.4:  # data stays with the learners, and they have more or less of it
        has = [chance.choice([None, min_samples + chance.randint(0, 2 * equal)]) for _ in range(num_learners)]
        with_limits = zip(fields["learners"], has, strict=True)
        fields["learners"] = [msgspec.structs.replace(one, max_samples=most) for one, most in with_limits]
    return fields


def learner(chance: random.Random, number: int) -> CycleLearner:
    """Any seconds; every other one has its data already."""
    return CycleLearner(
        name=f"w{number}",
        c2=10 ** chance.uniform(-2.5, 0),
        c1=chance.choice([0, 10 ** chance.uniform(-3, 0)]),
        c0=chance.uniform(0, 2),
    )


def exact_learner(chance: random.Random, number: int) -> CycleLearner:
    """Decimal fractions, whose sums often hit the cycle exactly."""
    return CycleLearner(
        name=f"w{number}",
        c2=chance.choice([0.1, 0.2, 0.3, 0.5, 1.0, 2.0]),
        c1=chance.choice([0, 0, 0.1, 0.5]),
        c0=chance.choice([0, 0, 0.5, 1.0]),
    )


def try_all(problem) -> tuple[int, int, int] | None:
    """The least staleness, the largest sum of local epochs with it, and the most in common; None if there is no way."""
    most = problem.samples if problem.max_samples is None else min(problem.max_samples, problem.samples)
    choices = [
        [
            (count, local_epochs)
            for count in range(problem.min_samples, min(most, problem.most_samples(learner)) + 1)
            if (local_epochs := problem.local_epochs(learner, count)) >= problem.min_iterations
        ]
        for learner in problem.learners
    ]
    # What is left, with the fewest and the most local epochs so far: only the largest sum matters.
    sums = {(problem.samples, 10**18, -1): 0}
    for own in choices:
        reached: dict[tuple[int, int, int], int] = {}
        for (left, fewest, most_so_far), total in sums.items():
            for count, local_epochs in own:
                if count <= left:
                    key = (left - count, min(fewest, local_epochs), max(most_so_far, local_epochs))
                    reached[key] = max(reached.get(key, -1), total + local_epochs)
        sums = reached
    complete = [(key[2] - key[1], -total, key[1]) for key, total in sums.items() if key[0] == 0]
    if not complete:
        return None
    least, negative_sum, _ = min(complete)
    return least, -negative_sum, max(fewest for _, _, fewest in complete)


def largest_sum(problem, staleness: int) -> int | None:
    """The largest sum of local epochs of shares with at most this staleness, by samples one at a time; None if none."""
    steps = Steps.of(problem)
    high = int(min(steps.high[0], problem.samples))
    counts = np.arange(problem.min_samples, high + 1)
    table = np.array([steps.take(np.full(len(counts), k)).local_epochs(counts) for k in range(len(problem.learners))])
    sums = []
    for low_end in np.unique(table[table >= problem.min_iterations]):
        best = np.full(problem.samples + 1, -1, dtype=np.int64)
        best[0] = 0
        for own in table:
            following = np.full_like(best, -1)
            for count, local_epochs in zip(counts, own, strict=True):
                if low_end <= local_epochs <= low_end + staleness:
                    before = best[: problem.samples + 1 - count]
                    reached = np.where(before >= 0, before + local_epochs, -1)
                    following[count:] = np.maximum(following[count:], reached)
            best = following
        if best[-1] >= 0:
            sums.append(int(best[-1]))
    return max(sums, default=None)
