"""One cycle of asynchronous learning: samples for every learner, and as many local epochs as time allows.

In a cycle of T seconds, learner k gets d_k of the d samples and does τ_k local epochs over them. That takes it

    t_k = C2_k·τ_k·d_k + C1_k·d_k + C0_k   seconds,

for training (C2 per sample and local epoch), moving its samples (C1 per sample; 0 if they are there already) and moving
the model (C0). It does as many local epochs as fit, τ_k = ⌊(T − C0_k − C1_k·d_k) / (C2_k·d_k)⌋. After Mohammad and
Sorour, "Adaptive Task Allocation for Asynchronous Federated Mobile Edge Learning", Eq. 5; their constraint (7b),
t_k = T, cannot hold in whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from paceline.allocation.least_time import least_time, suggest_seconds
from paceline.allocation.problem_base import AllocatedShare, Learners, Name, Problem, Reply
from paceline.allocation.rounding import units_within
from paceline.checks import MOST, Count, CountOrZero, NotNegative, Positive
from paceline.errors import ConfigError


class CycleLearner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner and its seconds: `c2` per sample and local epoch, `c1` per sample, `c0` in all.

    Attributes:
        max_samples: maximum of its samples, such as those it has where data stays on the devices; None for no limit.
    """

    name: Name
    c2: Positive
    c1: NotNegative = 0.0
    c0: NotNegative = 0.0
    max_samples: Count | None = None


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Why no shares keep all limits of a cycle.

    Attributes:
        kind: "least": the minimum shares exceed the total; "most": the maximum shares are below the total; "learner":
            one has no time for the local epochs over its minimum share; "time": all together have not.
        most: maximum of all shares together, or of the learner's local epochs.
        learner: index of the learner, for that kind.
    """

    kind: Literal["least", "most", "learner", "time"]
    most: int
    learner: int | None = None


class CycleProblem(Problem, frozen=True, kw_only=True):
    """Base of the problems of one cycle.

    Attributes:
        samples: number of samples to hand out, d.
        cycle_seconds: duration of the cycle, T.
        min_samples: minimum of a learner's samples.
        max_samples: maximum of a learner's samples; None for all.
        min_iterations: minimum of a learner's local epochs.
    """

    samples: Count
    cycle_seconds: Positive
    min_samples: Count = 1
    max_samples: Count | None = None
    min_iterations: CountOrZero = 1
    learners: Learners[CycleLearner]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_samples is not None and self.min_samples > self.max_samples:
            raise ConfigError(f"min_samples is {self.min_samples}, above max_samples, {self.max_samples}")
        for learner in self.learners:
            if learner.max_samples is not None and learner.max_samples < self.min_samples:
                raise ConfigError(
                    f"learner {learner.name!r}: max_samples is {learner.max_samples}, below min_samples, "
                    f"{self.min_samples}"
                )

    def most_samples(self, learner: CycleLearner) -> int:
        """Return the most samples that a learner can get, apart from `max_samples` of all."""
        return self.samples if learner.max_samples is None else min(self.samples, learner.max_samples)

    def local_epochs(self, learner: CycleLearner, num_samples: int) -> int:
        """Compute the local epochs over so many samples that a learner has time for, τ."""
        return units_within(
            self.cycle_seconds,
            fixed_seconds=learner.c0 + learner.c1 * num_samples,
            unit_seconds=learner.c2 * num_samples,
            most=MOST,
        )

    def shares(self, num_samples: Sequence[int]) -> list[AllocatedShare]:
        """Return the shares for these numbers of samples."""
        return [
            AllocatedShare(learner=learner.name, samples=count, iterations=self.local_epochs(learner, count))
            for learner, count in zip(self.learners, num_samples, strict=True)
        ]

    def broken(self, share: AllocatedShare) -> str | None:
        """Return the constraint that a learner's share violates; None if there is none."""
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

    def infeasible(self, conflict: Conflict) -> Reply:
        """Make the reply that names the conflicting limits."""
        num_learners = len(self.learners)
        if conflict.kind == "least":
            least = num_learners * self.min_samples
            reason = f"{num_learners} × min_samples, {self.min_samples}, is {least}, more than samples, {self.samples}"
        elif conflict.kind == "most" and any(learner.max_samples is not None for learner in self.learners):
            reason = f"max_samples of all learners add up to {conflict.most}, less than samples, {self.samples}"
        elif conflict.kind == "most":
            most = conflict.most
            reason = f"{num_learners} × max_samples, {self.max_samples}, is {most}, less than samples, {self.samples}"
        elif conflict.learner is not None:
            reason = (
                f"learner {self.learners[conflict.learner].name!r} has time for {conflict.most} iterations of "
                f"min_samples, {self.min_samples}, in cycle_seconds, {self.cycle_seconds:g}; min_iterations is "
                f"{self.min_iterations}; {self._least_seconds()}"
            )
        else:
            reason = (
                f"all learners together can take at most {conflict.most} of samples, {self.samples}, to do "
                f"min_iterations, {self.min_iterations}, in cycle_seconds, {self.cycle_seconds:g}; "
                f"{self._least_seconds()}"
            )
        return Reply(status="infeasible", reason=reason)

    def _least_seconds(self) -> str:
        """Say in which time all limits can be kept."""
        from paceline.allocation.csa.exact import find_conflict
        from paceline.allocation.csa.steps import Steps

        steps = Steps.of(self)

        def works(seconds: float) -> bool:
            return find_conflict(replace(steps, cycle_seconds=seconds), self.samples, self.min_iterations) is None

        return f"least that works: {suggest_seconds(least_time(works, self.cycle_seconds))}"
