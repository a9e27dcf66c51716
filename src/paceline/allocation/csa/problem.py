"""CSA as problems of ``paceline allocate``: solved exactly, and by the paper's two methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from paceline.allocation.cycle_problem import CycleProblem
from paceline.allocation.problem_base import Reply
from paceline.allocation.staleness import staleness

# NumPy and SciPy are imported when something is solved, so that the problems without them start at once.
if TYPE_CHECKING:
    from paceline.allocation.csa.steps import Counts, Steps


class CsaProblem(CycleProblem, frozen=True, kw_only=True):
    """Samples d_k between the limits, Σ d_k = d and τ_k ≥ min_iterations, with the least max τ − min τ.

    Of the allocations that reach it, one with the largest Σ τ_k. The problem is (7) of Mohammad and Sorour, "Adaptive
    Task Allocation for Asynchronous Federated Mobile Edge Learning", where a learner does as many local epochs as fit.
    """

    objective_name: ClassVar[str] = "greatest staleness, in local epochs"
    is_exact: ClassVar[bool] = True

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """Share out the samples; the optimum takes milliseconds, so the time limit is not needed."""
        from paceline.allocation.csa.exact import find_conflict
        from paceline.allocation.csa.steps import Steps

        steps = Steps.of(self)
        conflict = find_conflict(steps, self.samples, self.min_iterations)
        if conflict is not None:
            return self.infeasible(conflict)
        shares = self.shares(self._counts(steps).tolist())
        objective = staleness(shares)
        bound = objective if self.is_exact else 0  # the only bound that is known
        status: Literal["optimal", "feasible"] = "optimal" if objective == bound else "feasible"
        return Reply(status=status, objective=objective, bound=bound, allocation=shares)

    def _counts(self, steps: Steps) -> Counts:
        from paceline.allocation.csa.exact import least_staleness

        return least_staleness(steps, self.samples, self.min_iterations).counts


class RelaxedCsaProblem(CsaProblem, frozen=True, kw_only=True):
    """The same, solved numerically as in the paper; a baseline, for some dozens of learners."""

    is_exact: ClassVar[bool] = False

    def _counts(self, steps: Steps) -> Counts:
        from paceline.allocation.csa.relaxed import relax_and_round

        return relax_and_round(steps, self.samples, self.min_iterations)


class SuggestedCsaProblem(CsaProblem, frozen=True, kw_only=True):
    """The same, solved analytically as in the paper; a baseline, for some hundreds of learners."""

    is_exact: ClassVar[bool] = False

    def _counts(self, steps: Steps) -> Counts:
        from paceline.allocation.csa.suggest import suggest_and_improve

        return suggest_and_improve(steps, self.samples, self.min_iterations)
