"""DAB: a learner takes what its benchmark says it can finish by the deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import msgspec

from paceline import checks
from paceline.allocation import problem_base
from paceline.allocation.base import SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms
from paceline.allocation.costs import fixed_seconds, shard_seconds
from paceline.allocation.least_time import suggest_seconds
from paceline.allocation.problem_base import AllocatedShare, Reply
from paceline.allocation.rounding import units_within
from paceline.devices.profiles import Profile, Rate
from paceline.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DabAllocation(AllocationPolicy):
    """As many shards as can be downloaded, trained and uploaded by the deadline at the benchmarked rates.

    The same every round; 0 if not even one can be finished. From the paper, with the link measured in both directions
    and its latency counted once for the download and once for the upload:

        a = ⌊(D − 2·latency − Ωm/b_down − Ωm/b_up) / (μ·s/c + Ωd/b_down)⌋

    where D is the deadline, Ωm and Ωd the bytes of the model and of a shard of s samples, b the bytes per second,
    c the samples per second and μ the local epochs. With equal b and no latency it is Eq. 5 of Mays, Elsayed and
    Hassanein, "Decentralized Data Allocation via Local Benchmarking for Parallelized Mobile Edge Learning".
    """

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "learner"

    def allocate(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> list[Allocation]:
        """Decide for each candidate by itself; raises `ConfigError` for one without a profile."""
        return [self._allocation(terms, candidate) for candidate in candidates]

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

    name: problem_base.Name
    samples_per_second: checks.Positive
    down_bytes_per_second: checks.Positive
    up_bytes_per_second: checks.Positive
    latency_seconds: checks.NotNegative = 0.0

    def as_candidate(self) -> Candidate:
        """Describe the learner to the policy."""
        train, down, up = map(Rate, (self.samples_per_second, self.down_bytes_per_second, self.up_bytes_per_second))
        profile = Profile(train=train, down=down, up=up, latency_seconds=self.latency_seconds)
        return Candidate(name=self.name, profile=profile)


class DabProblem(problem_base.Problem, frozen=True, kw_only=True):
    """Shares that these learners would each take by themselves; the objective is the sum of shards."""

    objective_name: ClassVar[str] = "shards in all"

    deadline_seconds: checks.Positive
    iterations: checks.Count
    model_bytes: checks.CountOrZero
    shard_bytes: checks.CountOrZero
    shard_samples: checks.Count
    learners: problem_base.Learners[DabLearner]

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """Give each learner its own maximum, which is optimal; infeasible if none can finish a shard."""
        terms = RoundTerms(
            deadline_seconds=self.deadline_seconds,
            local_epochs=self.iterations,
            model_bytes=self.model_bytes,
            shard_bytes=self.shard_bytes,
            shard_samples=self.shard_samples,
            num_shards=checks.MOST,
        )
        candidates = [learner.as_candidate() for learner in self.learners]
        allocated = DabAllocation().allocate(terms, candidates)
        num_shards = sum(allocation.num_shards for allocation in allocated)
        if not num_shards:
            return Reply(status="infeasible", reason=_too_slow(terms, candidates))
        shares = [
            AllocatedShare(learner=candidate.name, shards=allocation.num_shards, iterations=allocation.local_epochs)
            for candidate, allocation in zip(candidates, allocated, strict=True)
        ]
        return Reply(status="optimal", objective=num_shards, bound=num_shards, allocation=shares)


def _too_slow(terms: RoundTerms, candidates: Sequence[Candidate]) -> str:
    profiles = {candidate.name: candidate.profile for candidate in candidates if candidate.profile}
    needed = {name: fixed_seconds(terms, own) + shard_seconds(terms, own) for name, own in profiles.items()}
    name = min(needed, key=needed.__getitem__)
    return (
        f"no learner can finish one shard within deadline_seconds, {terms.deadline_seconds:g}; "
        f"the fastest, {name!r}, needs {needed[name]:.6g}; least that works: {suggest_seconds(needed[name])}"
    )
