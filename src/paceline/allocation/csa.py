"""CSA: the shares of a cycle that make the staleness the least; exactly, and as the paper does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from paceline.allocation.contract import Reply
from paceline.allocation.cycle import CycleProblem, staleness

# NumPy and SciPy are imported when something is solved, so that the problems without them start at once.
if TYPE_CHECKING:
    from paceline.allocation.steps import Counts, Steps

OBJECTIVE = "greatest staleness, in local epochs"


class CsaProblem(CycleProblem, frozen=True, kw_only=True):
    """Samples d_k between the limits, Σ d_k = d and τ_k ≥ min_iterations, with the least max τ − min τ.

    Of the allocations that reach it, one with the largest Σ τ_k. The problem is (7) of Mohammad and Sorour, "Adaptive
    Task Allocation for Asynchronous Federated Mobile Edge Learning", where a learner does as many local epochs as fit.
    """

    objective_name: ClassVar[str] = OBJECTIVE

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """The optimum, in milliseconds; so there is no need for the time limit."""
        from paceline.allocation.exact import least_staleness

        return _solve(self, lambda *situation: least_staleness(*situation).counts, is_exact=True)


class RelaxedCsaProblem(CycleProblem, frozen=True, kw_only=True):
    """The same, solved as the paper does it numerically; a baseline, for some dozens of learners."""

    objective_name: ClassVar[str] = OBJECTIVE

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """What rounding makes of the solver's answer, also if it gave up; 0 is the only bound that is known."""
        from paceline.allocation.relaxed import relax_and_round

        return _solve(self, relax_and_round, is_exact=False)


class SuggestedCsaProblem(CycleProblem, frozen=True, kw_only=True):
    """The same, solved as the paper does it analytically; a baseline, for some hundreds of learners."""

    objective_name: ClassVar[str] = OBJECTIVE

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """The first allocation that no move improves; 0 is the only bound that is known."""
        from paceline.allocation.suggest import suggest_and_improve

        return _solve(self, suggest_and_improve, is_exact=False)


def _solve(problem: CycleProblem, share_out: Callable[[Steps, int, int], Counts], *, is_exact: bool) -> Reply:
    from paceline.allocation.exact import find_conflict
    from paceline.allocation.steps import Steps

    steps = Steps.of(problem)
    conflict = find_conflict(steps, problem.samples, problem.min_iterations)
    if conflict is not None:
        return problem.infeasible(conflict)
    shares = problem.shares(share_out(steps, problem.samples, problem.min_iterations).tolist())
    objective = staleness(shares)
    bound = objective if is_exact else 0
    return Reply(
        status="optimal" if objective == bound else "feasible", objective=objective, bound=bound, allocation=shares
    )
