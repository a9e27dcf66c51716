"""The problems of several tasks, as `paceline allocate` poses them: med, mmtt and greedy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from paceline.allocation.problem_base import AllocatedShare, Name, Problem, Reply, check_unique
from paceline.checks import MOST, Count, CountOrZero, NotNegative, Positive
from paceline.errors import ConfigError

# NumPy and HiGHS are imported when something is solved, so that the problems without them start at once.
if TYPE_CHECKING:
    from paceline.allocation.med.instance import Instance, Plan

MAX_TASKS = 100
MAX_TASK_LEARNERS = 10_000

Probability: TypeAlias = Annotated[float, Meta(gt=0, le=1)]


class MedTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task: its shards must be trained by its deadline, so many times over."""

    name: Name
    shards: Count
    deadline_seconds: Positive
    model_bytes: NotNegative
    shard_bytes: NotNegative
    iterations: Count = 1


class MedState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A state that a learner may be in, and its rates in it; those of training for one iteration, by task."""

    probability: Probability = 1.0
    bytes_per_second: Positive
    shards_per_second: dict[str, Positive]


class MedLearner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner, its price for a shard, and its states."""

    name: Name
    price: NotNegative = 0.0
    states: Annotated[list[MedState], Meta(min_length=1, max_length=100)]


class MedProblem(Problem, frozen=True, kw_only=True):
    """Shards d_ij for learners, each in at most one task, with the least Σ_i max_j δ_ij; in expectation over states.

    δ_ij = Σ_k γ_jk·((2·Ω_i + α_i·d_ij)/b_jk + iterations_i·d_ij/c_ijk) for d_ij > 0: the model there and back, the
    shards, and their training. Constraints: δ_ij ≤ T_i, all shards of a task are handed out, all together cost no more
    than the budget, and each learner gets at least `min_shards`; with 0 it may be idle.

    Attributes:
        budget: limit of the cost of all shards; None if there is none.
    """

    objective_name: ClassVar[str] = "seconds, summed over tasks"

    budget: NotNegative | None = None
    min_shards: CountOrZero = 1
    tasks: Annotated[list[MedTask], Meta(min_length=1, max_length=MAX_TASKS)]
    learners: Annotated[list[MedLearner], Meta(min_length=1, max_length=MAX_TASK_LEARNERS)]

    def __post_init__(self) -> None:
        check_unique((task.name for task in self.tasks), "tasks")
        check_unique((learner.name for learner in self.learners), "learners")
        names = {task.name for task in self.tasks}
        for place, learner in enumerate(self.learners):
            key = f"learners[{place}].states"
            total = sum(state.probability for state in learner.states)
            if not math.isclose(total, 1.0, abs_tol=1e-6):
                raise ConfigError(f"{key} have probabilities that add up to {total:g}; they must add up to 1")
            for number, state in enumerate(learner.states):
                if missing := sorted(names - state.shards_per_second.keys()):
                    raise ConfigError(f"{key}[{number}].shards_per_second has no rate for task {missing[0]!r}")
                if unknown := sorted(state.shards_per_second.keys() - names):
                    raise ConfigError(f"{key}[{number}].shards_per_second names {unknown[0]!r}, which is no task")

    def instance(self) -> Instance:
        """Convert the problem to arrays."""
        import numpy as np

        from paceline.allocation.med.instance import Instance

        fixed, unit = np.zeros((2, len(self.tasks), len(self.learners)))
        for column, learner in enumerate(self.learners):
            for state in learner.states:
                seconds_per_byte = state.probability / state.bytes_per_second
                for row, task in enumerate(self.tasks):
                    rate = state.shards_per_second[task.name]
                    fixed[row, column] += 2 * task.model_bytes * seconds_per_byte
                    unit[row, column] += task.shard_bytes * seconds_per_byte
                    unit[row, column] += state.probability * task.iterations / rate
        return Instance(
            fixed_seconds=np.minimum(fixed, 1e3 * MOST),
            unit_seconds=np.minimum(unit, 1e3 * MOST),
            deadlines=np.array([task.deadline_seconds for task in self.tasks], dtype=np.float64),
            shards=np.array([task.shards for task in self.tasks], dtype=np.float64),
            prices=np.array([learner.price for learner in self.learners], dtype=np.float64),
            budget=math.inf if self.budget is None else self.budget,
            min_shards=self.min_shards,
        )

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """Find the optimum if it can be proven in time, else the best that is found, with the bound that is proven."""
        from paceline.allocation.med.limit import Limit
        from paceline.allocation.med.solver import DEFAULT_SECONDS, explain, solve

        instance = self.instance()
        reason = self._conflict(instance)
        if reason is not None:
            return Reply(status="infeasible", reason=reason)
        max_seconds = DEFAULT_SECONDS if time_limit_seconds is None else time_limit_seconds
        solution = solve(instance, Limit(max_seconds=max_seconds))
        if solution.plan is None:
            return Reply(status="infeasible", reason=explain(instance, solution, Limit(max_seconds=max_seconds)))
        return self._reply(solution.plan, solution.bound, is_optimal=solution.is_proven)

    def _conflict(self, instance: Instance) -> str | None:
        from paceline.allocation.med.conflicts import find_conflict

        tasks, learners = [task.name for task in self.tasks], [learner.name for learner in self.learners]
        return find_conflict(instance, tasks, learners)

    def _reply(self, plan: Plan, bound: float, *, is_optimal: bool) -> Reply:
        shares = [
            AllocatedShare(
                learner=learner.name,
                task=self.tasks[task].name,
                shards=int(plan.counts[task, place]),
                iterations=self.tasks[task].iterations,
            )
            for place, (learner, task) in enumerate(zip(self.learners, plan.tasks.tolist(), strict=True))
            if task >= 0
        ]
        return Reply(
            status="optimal" if is_optimal else "feasible",
            objective=plan.objective,
            bound=plan.objective if is_optimal else min(bound, plan.objective),
            allocation=shares,
            cost=plan.cost,
        )


class MmttProblem(MedProblem, frozen=True, kw_only=True):
    """The same without uncertainty: each learner is in the one state that is given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for place, learner in enumerate(self.learners):
            if len(learner.states) > 1:
                raise ConfigError(
                    f"learners[{place}].states has {len(learner.states)} states; mmtt takes each learner's state as "
                    "known: give that one (med weighs several by their probabilities)"
                )


class GreedyProblem(MedProblem, frozen=True, kw_only=True):
    """The same by a rule that looks neither ahead nor at the budget: the floor that the others are compared with.

    The fastest learner comes first, and each goes to the task that would end last without it.
    """

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """Apply the rule; infeasible if that breaks a constraint, though another allocation may keep them all."""
        from paceline.allocation.med.greedy import greedy

        instance = self.instance()
        reason = self._conflict(instance)
        if reason is not None:
            return Reply(status="infeasible", reason=reason)
        outcome = greedy(instance)
        if outcome.late is not None:
            task = self.tasks[outcome.late]
            reason = f"greedy: task {task.name!r} would not be done by its deadline_seconds, {task.deadline_seconds:g}"
            return Reply(status="infeasible", reason=reason)
        assert outcome.plan is not None
        if self.budget is not None and outcome.plan.cost > self.budget * (1 + 1e-9):
            reason = f"greedy: its allocation costs {outcome.plan.cost:.6g}, more than budget, {self.budget:g}"
            return Reply(status="infeasible", reason=reason)
        is_optimal = outcome.plan.objective <= outcome.bound
        return self._reply(outcome.plan, outcome.bound, is_optimal=is_optimal)
