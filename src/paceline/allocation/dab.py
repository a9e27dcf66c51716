"""DAB: a learner takes what its benchmark says it can finish by the deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from paceline.allocation.base import SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms
from paceline.allocation.contract import (
    MAX_LEARNERS,
    MOST,
    AllocatedShare,
    Count,
    CountOrZero,
    Name,
    NotNegative,
    Positive,
    Problem,
    Reply,
    check_unique,
)
from paceline.allocation.costs import fixed_seconds, shard_seconds
from paceline.allocation.rounding import units_within
from paceline.devices.profiles import Profile, Rate
from paceline.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DabAllocation(AllocationPolicy):
    """As many shards as can be downloaded, trained and reported by the deadline at the benchmarked rates.

    The same every round; 0 if not even one can be finished. From the paper, with the link measured in both directions
    and its latency counted once for the download and once for the upload:

        a = ⌊(D − 2·latency − Ωm/b_down − Ωm/b_up) / (μ·s/c + Ωd/b_down)⌋

    where D is the deadline, Ωm and Ωd the bytes of the model and of a shard of s samples, b the bytes per second,
    c the samples per second and μ the local epochs. With equal b and no latency it is Eq. 5 of Mays, Elsayed and
    Hassanein, "Decentralized Data Allocation via Local Benchmarking for Parallelized Mobile Edge Learning".
    """

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "learner"

    def allocate(self, terms: RoundTerms, fleet: Sequence[Candidate]) -> list[Allocation]:
        """Each candidate for itself; raises `ConfigError` for one without a profile."""
        return [self._allocation(terms, candidate) for candidate in fleet]

    def _allocation(self, terms: RoundTerms, candidate: Candidate) -> Allocation:
        if candidate.profile is None:
            raise ConfigError(f"dab: learner {candidate.name!r} has no profile; it must be benchmarked first")
        count = units_within(
            terms.deadline_seconds,
            fixed_seconds=fixed_seconds(terms, candidate.profile),
            unit_seconds=shard_seconds(terms, candidate.profile),
            most=candidate.most_shards(terms),
        )
        return Allocation(count, terms.local_epochs) if count else SITS_OUT


class DabLearner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner of a `DabProblem`; rates as in a `Profile`."""

    name: Name
    samples_per_second: Positive
    down_bytes_per_second: Positive
    up_bytes_per_second: Positive
    latency_seconds: NotNegative = 0.0

    def as_candidate(self) -> Candidate:
        """The learner as the policy sees it."""
        return Candidate(
            name=self.name,
            profile=Profile(
                train=Rate(self.samples_per_second),
                down=Rate(self.down_bytes_per_second),
                up=Rate(self.up_bytes_per_second),
                latency_seconds=self.latency_seconds,
            ),
        )


class DabProblem(Problem, frozen=True, kw_only=True):
    """What each of these learners would take by itself; the objective is the sum of their shards."""

    objective_name: ClassVar[str] = "shards in all"

    deadline_seconds: Positive
    iterations: Count
    model_bytes: CountOrZero
    shard_bytes: CountOrZero
    shard_samples: Count
    learners: Annotated[list[DabLearner], Meta(min_length=1, max_length=MAX_LEARNERS)]

    def __post_init__(self) -> None:
        check_unique((learner.name for learner in self.learners), "learners")

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """Each learner's own maximum, so optimal; infeasible if none can finish a shard."""
        terms = RoundTerms(
            deadline_seconds=self.deadline_seconds,
            local_epochs=self.iterations,
            model_bytes=self.model_bytes,
            shard_bytes=self.shard_bytes,
            shard_samples=self.shard_samples,
            num_shards=MOST,
        )
        fleet = [learner.as_candidate() for learner in self.learners]
        allocated = DabAllocation().allocate(terms, fleet)
        num_shards = sum(allocation.num_shards for allocation in allocated)
        if not num_shards:
            return Reply(status="infeasible", reason=_too_slow(terms, fleet))
        shares = [
            AllocatedShare(learner=candidate.name, shards=allocation.num_shards, iterations=allocation.local_epochs)
            for candidate, allocation in zip(fleet, allocated, strict=True)
        ]
        return Reply(status="optimal", objective=num_shards, bound=num_shards, allocation=shares)


def _too_slow(terms: RoundTerms, fleet: Sequence[Candidate]) -> str:
    needed = {c.name: fixed_seconds(terms, c.profile) + shard_seconds(terms, c.profile) for c in fleet if c.profile}
    name = min(needed, key=needed.__getitem__)
    return (
        f"no learner can finish one shard within deadline_seconds, {terms.deadline_seconds:g}; "
        f"the fastest, {name!r}, needs {needed[name]:.6g}"
    )
