"""One cycle of asynchronous learning: samples for every learner, and as many iterations as time allows.

In a cycle of T seconds, learner k gets d_k of the d samples and does τ_k iterations over them. That takes it

    t_k = C2_k·τ_k·d_k + C1_k·d_k + C0_k   seconds,

for training (C2 per sample and iteration), moving its samples (C1 per sample; 0 if they are there already) and moving
the model (C0). It does as many iterations as fit, τ_k = ⌊(T − C0_k − C1_k·d_k) / (C2_k·d_k)⌋. After Mohammad and
Sorour, "Adaptive Task Allocation for Asynchronous Federated Mobile Edge Learning", Eq. 5; their constraint (7b),
t_k = T, cannot hold in whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from paceline.allocation.contract import (
    MAX_LEARNERS,
    MOST,
    Count,
    CountOrZero,
    Name,
    NotNegative,
    Positive,
    Problem,
    Share,
    check_unique,
)
from paceline.allocation.rounding import units_within
from paceline.errors import ConfigError


class CycleLearner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner and its seconds: `c2` per sample and iteration, `c1` per sample, `c0` in all."""

    name: Name
    c2: Positive
    c1: NotNegative = 0.0
    c0: NotNegative = 0.0


class CycleProblem(Problem, frozen=True, kw_only=True):
    """Base of the problems of one cycle.

    Attributes:
        samples: that must all be handed out, d.
        cycle_seconds: T.
        min_samples: the least that a learner may get.
        max_samples: the most that a learner may get; None for all.
        min_iterations: the least that a learner must have time for.
    """

    samples: Count
    cycle_seconds: Positive
    min_samples: Count = 1
    max_samples: Count | None = None
    min_iterations: CountOrZero = 1
    learners: Annotated[list[CycleLearner], Meta(min_length=1, max_length=MAX_LEARNERS)]

    def __post_init__(self) -> None:
        check_unique((learner.name for learner in self.learners), "learners")
        if self.max_samples is not None and self.min_samples > self.max_samples:
            raise ConfigError(f"min_samples is {self.min_samples}, above max_samples, {self.max_samples}")

    def iterations(self, learner: CycleLearner, num_samples: int) -> int:
        """How many iterations over so many samples a learner has time for, τ."""
        return units_within(
            self.cycle_seconds,
            fixed_seconds=learner.c0 + learner.c1 * num_samples,
            unit_seconds=learner.c2 * num_samples,
            most=MOST,
        )

    def shares(self, num_samples: Sequence[int]) -> list[Share]:
        """What each learner gets if it gets so many samples."""
        return [
            Share(learner=learner.name, samples=count, iterations=self.iterations(learner, count))
            for learner, count in zip(self.learners, num_samples, strict=True)
        ]

    def broken(self, share: Share) -> str | None:
        """Which constraint a learner's share breaks; None if it keeps them all."""
        assert share.samples is not None
        if share.samples < self.min_samples:
            return f"learner {share.learner!r} would get {share.samples} samples; min_samples is {self.min_samples}"
        if self.max_samples is not None and share.samples > self.max_samples:
            return f"learner {share.learner!r} would get {share.samples} samples; max_samples is {self.max_samples}"
        if share.iterations < self.min_iterations:
            return (
                f"learner {share.learner!r} has time for {share.iterations} iterations of its {share.samples} samples "
                f"in cycle_seconds, {self.cycle_seconds:g}; min_iterations is {self.min_iterations}"
            )
        return None


def staleness(shares: Sequence[Share]) -> int:
    """The most that two learners' iterations differ by."""
    iterations = [share.iterations for share in shares]
    return max(iterations) - min(iterations)
