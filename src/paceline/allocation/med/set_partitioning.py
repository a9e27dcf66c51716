"""Set partitioning: of all columns that a better plan can be made of, the best choice, as an integer program.

Variables: x_c ∈ {0, 1}, whether column c, a set of learners with a target for one task, is chosen.
Objective: the least Σ_c target_c·x_c, in seconds.
Constraints: one column for each task; each learner in one column, or in at most one if it may be idle; and
Σ_c cost_c·x_c ≤ the budget. Solved by HiGHS, by branch and bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from paceline.allocation.med.column_enumeration import Columns
from paceline.allocation.med.instance import Indices, Instance
from paceline.allocation.med.limit import Limit
from paceline.extras import extra

with extra("solvers"):
    import highspy

_MARGIN = 1e-6  # part of the best known plan, for the solver's tolerances
_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "mip_feasibility_tolerance": 1e-9,
}
_OPTIMAL, _INFEASIBLE = highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """Result of the program.

    Attributes:
        rows: columns that are chosen, one per task; None if nothing was found below the best known plan.
        bound: on the sum of targets; infinite if there is no choice.
    """

    rows: Indices | None
    bound: float


def choose(
    instance: Instance,
    columns: Columns,
    best_known: float,
    *,
    max_columns: int | None = None,
    max_nodes: int | None = None,
    limit: Limit,
) -> Choice:
    """Find the choice of least time, if it is less than the best known.

    The linear relaxation comes first, to leave out columns that cannot be in a better choice. With `max_columns`, only
    those are chosen from that add the least to it: faster, but no proof.
    """
    if len(np.unique(columns.tasks)) < instance.num_tasks:
        return Choice(rows=None, bound=math.inf)
    relaxed = _solved(_model(instance, columns), limit)
    if relaxed.getModelStatus() != _OPTIMAL:
        return Choice(rows=None, bound=math.inf if relaxed.getModelStatus() == _INFEASIBLE else -math.inf)
    objective = float(relaxed.getInfo().objective_function_value)
    reduced_costs = np.maximum(np.array(relaxed.getSolution().col_dual), 0.0)
    most = best_known + _MARGIN * abs(best_known)
    near = np.flatnonzero(objective + reduced_costs <= most)
    is_all = max_columns is None or len(near) <= max_columns
    if not is_all:
        near = near[np.argsort(reduced_costs[near], kind="stable")[:max_columns]]
    model = _model(instance, columns.take(near))
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(near)
    nodes = min(limit.steps_left, math.inf if max_nodes is None else max_nodes)
    whole = _solved(model, limit, objective_bound=most, **({} if math.isinf(nodes) else {"mip_max_nodes": int(nodes)}))
    info = whole.getInfo()
    limit.spend(max(1, int(info.mip_node_count)))
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        chosen = np.flatnonzero(np.array(whole.getSolution().col_value) > 0.5)
        return Choice(rows=near[chosen], bound=float(info.mip_dual_bound) if is_all else objective)
    is_impossible = is_all and whole.getModelStatus() == _INFEASIBLE
    return Choice(rows=None, bound=math.inf if is_impossible else objective)


def _solved(model: highspy.HighsLp, limit: Limit, **options: float) -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in {**_OPTIONS, "time_limit": limit.seconds_left, **options}.items():
        solver.setOptionValue(option, value)
    solver.passModel(model)
    solver.run()
    return solver


def _model(instance: Instance, columns: Columns) -> highspy.HighsLp:
    """Rows of the program: learners, tasks, and the budget if there is one."""
    num_learners, num_tasks, num_columns = instance.num_learners, instance.num_tasks, len(columns)
    matrix = np.concatenate([columns.members, instance.sets_of(columns.tasks).T], axis=1).astype(float)
    lower, upper = np.ones((2, num_learners + num_tasks))
    if instance.may_idle:
        lower[:num_learners] = 0.0
    if not instance.has_ample_budget:
        scale = max(instance.budget, 1e-300)
        matrix = np.append(matrix, columns.costs[:, None] / scale, axis=1)
        lower, upper = np.append(lower, 0.0), np.append(upper, instance.budget / scale)
    places, rows = np.nonzero(matrix)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = num_columns, matrix.shape[1]
    model.col_cost_ = columns.targets
    model.col_lower_, model.col_upper_ = np.zeros(num_columns), np.full(num_columns, highspy.kHighsInf)
    model.row_lower_, model.row_upper_ = lower, upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.searchsorted(places, np.arange(num_columns + 1))
    model.a_matrix_.index_, model.a_matrix_.value_ = rows, matrix[places, rows]
    return model
