"""The synchronous scheme: all learners do the same number of local epochs, the most that all have time for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paceline.allocation.central import CentralAllocation
from paceline.allocation.cycle_problem import CycleProblem
from paceline.allocation.problem_base import AllocatedShare, Reply

if TYPE_CHECKING:
    from paceline.allocation.csa.steps import Counts, Steps


@dataclass(frozen=True, kw_only=True)
class SyncAllocation(CentralAllocation):
    """All do the same number of local epochs, the most that all have time for, as in `SyncProblem`."""

    def _share_out(self, steps: Steps, total: int) -> tuple[Counts, Counts]:
        from paceline.allocation.csa.exact import most_in_common, take_back

        local_epochs = most_in_common(steps, total, self.min_local_epochs)
        counts = take_back(steps.most_for(local_epochs), steps.low, total)
        return counts, counts * 0 + local_epochs


class SyncProblem(CycleProblem, frozen=True, kw_only=True):
    """The largest τ for which samples d_k between the limits, Σ d_k = d, leave every learner time for τ local epochs.

    A learner that has time for more waits. After Mohammad and Sorour, "Adaptive Task Allocation for Mobile Edge
    Learning", to which asynchronous learning is compared.
    """

    objective_name: ClassVar[str] = "local epochs of every learner"

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """Find the optimum; it takes milliseconds, so the time limit is not needed."""
        from paceline.allocation.csa.exact import find_conflict, most_in_common, take_back  # imports NumPy
        from paceline.allocation.csa.steps import Steps

        steps = Steps.of(self)
        conflict = find_conflict(steps, self.samples, self.min_iterations)
        if conflict is not None:
            return self.infeasible(conflict)
        local_epochs = most_in_common(steps, self.samples, self.min_iterations)
        counts = take_back(steps.most_for(local_epochs), steps.low, self.samples)
        shares = [
            AllocatedShare(learner=learner.name, samples=count, iterations=local_epochs)
            for learner, count in zip(self.learners, counts.tolist(), strict=True)
        ]
        return Reply(status="optimal", objective=local_epochs, bound=local_epochs, allocation=shares)
