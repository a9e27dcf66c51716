"""ETA: equal shares, whatever the devices can do; the baseline of the other policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from paceline.allocation import costs
from paceline.allocation.base import SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms, shards_there
from paceline.allocation.cycle_problem import Conflict, CycleProblem
from paceline.allocation.problem_base import Reply
from paceline.allocation.rounding import split_evenly, units_within
from paceline.allocation.staleness import staleness
from paceline.checks import MOST, Count


@dataclass(frozen=True, kw_only=True)
class EqualAllocation(AllocationPolicy):
    """All shards in equal parts, the remainder to the first; what exceeds a learner's limit goes to the others.

    Attributes:
        shards_per_round: shards to allocate in a round; None for all there are.
        asynchronous: whether each learner does as many local epochs as fit by the deadline, at least one; otherwise
            it does the job's number.
    """

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "orchestrator"

    shards_per_round: Count | None = None
    asynchronous: bool = False

    @property
    def needs_profiles(self) -> bool:  # type: ignore[override]
        return self.asynchronous

    def allocate(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> list[Allocation]:
        """Split the shards; less than all only if every candidate has reached its limit."""
        there = shards_there(terms, candidates)
        total = there if self.shards_per_round is None else min(there, self.shards_per_round)
        counts = split_evenly(total, [candidate.most_shards(terms) for candidate in candidates])
        return [
            Allocation(count, self._local_epochs(terms, candidate, count)) if count else SITS_OUT
            for candidate, count in zip(candidates, counts, strict=True)
        ]

    def least_deadline_seconds(self, terms: RoundTerms, candidate: Candidate) -> float:
        profile = candidate.profile
        if profile is None:
            return math.inf
        return costs.fixed_seconds(terms, profile) + costs.shard_seconds(terms, profile)

    def _local_epochs(self, terms: RoundTerms, candidate: Candidate, num_shards: int) -> int:
        profile = candidate.profile
        if not self.asynchronous or profile is None:
            return terms.local_epochs
        fitting = units_within(
            terms.deadline_seconds,
            fixed_seconds=costs.fixed_seconds(terms, profile) + num_shards * costs.download_seconds(terms, profile),
            unit_seconds=num_shards * costs.local_epoch_seconds(terms, profile),
            most=MOST,
        )
        return max(1, fitting)


class EtaProblem(CycleProblem, frozen=True, kw_only=True):
    """Equal samples for all, d/K each, or all that a learner can get where that is less.

    The objective is the greatest staleness, which the rule ignores.
    """

    objective_name: ClassVar[str] = "greatest staleness, in local epochs"

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """Split equally; optimal only without staleness, since another split may do better."""
        counts = split_evenly(self.samples, [self.most_samples(learner) for learner in self.learners])
        if sum(counts) < self.samples:
            return self.infeasible(Conflict(kind="most", most=sum(counts)))
        shares = self.shares(counts)
        for share in shares:
            reason = self.broken(share)
            if reason is not None:
                return Reply(status="infeasible", reason=reason)
        objective = staleness(shares)
        status: Literal["optimal", "feasible"] = "feasible" if objective else "optimal"
        return Reply(status=status, objective=objective, bound=0, allocation=shares)
