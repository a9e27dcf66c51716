"""ETA: equal shares, whatever the devices can do; the baseline of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from paceline.allocation.base import AllocationPolicy, Candidate, Terms
from paceline.allocation.contract import Reply
from paceline.allocation.cycle import CycleProblem, staleness
from paceline.allocation.rounding import split_evenly


@dataclass(frozen=True, kw_only=True)
class EqualAllocation(AllocationPolicy):
    """All shards in equal parts, the remainder to the first; what a learner will not take goes to the others."""

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "orchestrator"

    def allocate(self, terms: Terms, fleet: Sequence[Candidate]) -> list[int]:
        """The parts; less than all shards only if every candidate has as many as it will take."""
        return split_evenly(terms.num_shards, [candidate.most_shards(terms) for candidate in fleet])


class EtaProblem(CycleProblem, frozen=True, kw_only=True):
    """Equal samples for all, d/K each; the objective is the greatest staleness, which the rule does nothing about."""

    objective_name: ClassVar[str] = "greatest staleness, in iterations"

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """The equal split; optimal only if nobody is stale, since another split may do better."""
        shares = self.shares(split_evenly(self.samples, [self.samples] * len(self.learners)))
        for share in shares:
            reason = self.broken(share)
            if reason is not None:
                return Reply(status="infeasible", reason=reason)
        objective = staleness(shares)
        status: Literal["optimal", "feasible"] = "feasible" if objective else "optimal"
        return Reply(status=status, objective=objective, bound=0, allocation=shares)
