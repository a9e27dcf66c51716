"""One set per task: of all sets that a better plan can be made of, the best choice, as an integer program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.allocation.med.instance import Bools, Floats, Indices, Instance
from paceline.extras import extra

with extra("solvers"):
    import highspy

_MARGIN = 1e-6  # of the best known, for the solver's tolerances


@dataclass(frozen=True, kw_only=True, eq=False)
class Choices:
    """Sets of learners with a target, a row each.

    Attributes:
        tasks: that a set is for.
        members: of the set, by learner.
        targets: in seconds.
        costs: of the task's shards.
    """

    tasks: Indices
    members: Bools
    targets: Floats
    costs: Floats

    @classmethod
    def join(cls, parts: Sequence[Choices]) -> Choices:
        """The rows of all, of which there is at least one."""
        return cls(
            tasks=np.concatenate([part.tasks for part in parts]),
            members=np.concatenate([part.members for part in parts]),
            targets=np.concatenate([part.targets for part in parts]),
            costs=np.concatenate([part.costs for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, kept: Bools | Indices) -> Choices:
        """Some of the rows."""
        return Choices(
            tasks=self.tasks[kept], members=self.members[kept], targets=self.targets[kept], costs=self.costs[kept]
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """What the program gave.

    Attributes:
        rows: that are chosen, one per task; None if nothing was found below the best known plan.
        bound: on the sum of targets; infinite if there is no choice.
    """

    rows: Indices | None
    bound: float


def choose(
    instance: Instance, choices: Choices, best_known: float, *, max_rows: int | None = None, time_limit_seconds: float
) -> Choice:
    """The choice of least time, if it is less than the best known; relaxed first, to leave out what cannot be in it.

    With `max_rows`, only so many are chosen from that add the least to the relaxed program: faster, but no proof.
    """
    if len(np.unique(choices.tasks)) < instance.num_tasks:
        return Choice(rows=None, bound=np.inf)
    relaxed = _Program(instance, choices, time_limit_seconds)
    relaxed.run()
    if not relaxed.is_solved:
        return Choice(rows=None, bound=np.inf if relaxed.is_impossible else -np.inf)
    margin = _MARGIN * abs(best_known)
    near = np.flatnonzero(relaxed.objective + relaxed.reduced_costs <= best_known + margin)
    is_all = max_rows is None or len(near) <= max_rows
    near = near if is_all else near[np.argsort(relaxed.reduced_costs[near], kind="stable")[:max_rows]]
    left = max(0.0, time_limit_seconds - relaxed.seconds)
    whole = _Program(instance, choices.take(near), left, best_known=best_known + margin)
    whole.run()
    if whole.has_choice:
        return Choice(rows=near[whole.chosen], bound=whole.bound if is_all else relaxed.objective)
    return Choice(rows=None, bound=np.inf if is_all and whole.is_impossible else relaxed.objective)


class _Program:
    """Rows: each learner in one set, each task with one set, and the budget."""

    def __init__(
        self, instance: Instance, choices: Choices, time_limit_seconds: float, best_known: float | None = None
    ) -> None:
        self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in {
            "output_flag": False,
            "threads": 1,
            "time_limit": time_limit_seconds,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 1e-9,
            "primal_feasibility_tolerance": 1e-9,
            "mip_feasibility_tolerance": 1e-9,
        }.items():
            self._solver.setOptionValue(option, value)
        if best_known is not None:
            self._solver.setOptionValue("objective_bound", best_known)
        self._solver.passModel(_model(instance, choices, is_whole=best_known is not None))

    def run(self) -> None:
        """Solve it, or stop when the time is over."""
        self._solver.run()

    @property
    def has_choice(self) -> bool:
        """Whether a choice was found."""
        feasible = highspy.SolutionStatus.kSolutionStatusFeasible
        return bool(self._solver.getInfo().primal_solution_status == feasible)

    @property
    def is_solved(self) -> bool:
        """Whether the best choice was found."""
        return bool(self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    @property
    def is_impossible(self) -> bool:
        """Whether there is proven to be no choice."""
        return bool(self._solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible)

    @property
    def seconds(self) -> float:
        """What it took."""
        return float(self._solver.getRunTime())

    @property
    def objective(self) -> float:
        """The sum of targets."""
        return float(self._solver.getInfo().objective_function_value)

    @property
    def bound(self) -> float:
        """The proven one, of a program in whole numbers."""
        return float(self._solver.getInfo().mip_dual_bound)

    @property
    def reduced_costs(self) -> Floats:
        """Of each choice, of a relaxed program: what it would add to the objective at least."""
        reduced: Floats = np.maximum(np.array(self._solver.getSolution().col_dual), 0.0)
        return reduced

    @property
    def chosen(self) -> Indices:
        """The choices taken."""
        return np.flatnonzero(np.array(self._solver.getSolution().col_value) > 0.5)


def _model(instance: Instance, choices: Choices, *, is_whole: bool) -> highspy.HighsLp:
    num_learners, num_tasks, num_choices = instance.num_learners, instance.num_tasks, len(choices)
    has_budget = not instance.has_ample_budget
    is_in = choices.tasks[:, None] == np.arange(num_tasks)
    matrix = np.concatenate([choices.members, is_in], axis=1).astype(float)
    lower = np.ones(num_learners + num_tasks)
    upper = lower.copy()
    if instance.may_idle:
        lower[:num_learners] = 0.0
    if has_budget:
        scale = max(instance.budget, 1e-300)
        matrix = np.append(matrix, choices.costs[:, None] / scale, axis=1)
        lower, upper = np.append(lower, 0.0), np.append(upper, instance.budget / scale)
    columns, rows = np.nonzero(matrix)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = num_choices, matrix.shape[1]
    model.col_cost_ = choices.targets
    model.col_lower_, model.col_upper_ = np.zeros(num_choices), np.full(num_choices, highspy.kHighsInf)
    model.row_lower_, model.row_upper_ = lower, upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.searchsorted(columns, np.arange(num_choices + 1))
    model.a_matrix_.index_, model.a_matrix_.value_ = rows, matrix[columns, rows]
    if is_whole:
        model.integrality_ = [highspy.HighsVarType.kInteger] * num_choices
    return model
