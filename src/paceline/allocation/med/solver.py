"""Solver of MED: plans and bounds get better by turns until they meet, or the limit is reached.

1. A first assignment (`frank_wolfe`), improved by local search (`local_search`), made into a plan (`plans`).
2. A bound from prices (`lagrangian`, `smooth_dual`), which rules out most targets, and hints at better assignments.
3. If few enough targets are left, the higher bound with whole learners (`subgradient`, `knapsack`). If few enough sets
   of learners are left then (`column_enumeration`), an integer program chooses among them (`set_partitioning`), and the
   best plan is proven. If not, it chooses among the most promising, which may give a better plan.
4. More plans: from assignments for targets that annealing has found (`annealing`), and by iterated local search
   (Lourenço, Martin and Stützle, 2003). With many learners, annealing also comes before the first bound.

Whenever it ends, the bound is proven. What is done depends on steps only; a clock can end it, but nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from paceline.allocation.med import frank_wolfe
from paceline.allocation.med.annealing import Annealing
from paceline.allocation.med.column_enumeration import enumerate_columns
from paceline.allocation.med.greedy import earliest_ends
from paceline.allocation.med.instance import Indices, Instance, Plan
from paceline.allocation.med.intervals import Intervals
from paceline.allocation.med.knapsack import table_size
from paceline.allocation.med.lagrangian import Bound, improve
from paceline.allocation.med.limit import Limit
from paceline.allocation.med.local_search import LocalSearch
from paceline.allocation.med.plans import plan_for
from paceline.allocation.med.set_partitioning import choose
from paceline.allocation.med.subgradient import MAX_TABLE, improve_whole, to_moments
from paceline.allocation.rounding import TOLERANCE

DEFAULT_SECONDS = 60.0
OPTIMAL = 1e-7
"""Part of the objective by which the bound may be below it."""

_MAX_SEARCHED = 2_000  # learners, above which there is none: it looks at all pairs of them
_NUM_INTERVALS = 8  # of each task, to begin with
_NUM_ASCENTS = 12  # between two searches
_MANY = 200  # learners, above which local search takes long: annealing comes first, and nothing is iterated
# walks of annealing, steps of each per learner, and kicks of local search; twice as many steps and kicks each time
_EFFORT, _EFFORT_FOR_MANY = (3, 1, 50), (1, 5, 0)
_LEAST_MONEY = 1e-100  # prices may be as low as floats are; times in their units would be none
_KICKED = 4  # learners that change places
_MAX_COLUMNS = 200_000
_MAX_CHOSEN_FROM, _MAX_NODES = 3_000, 500  # columns and nodes where nothing is to be proven
# part of the gap that columns are enumerated up to: few first, since a better plan makes fewer of all
_PARTS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Best plan that was found, and what is proven of it.

    Attributes:
        plan: best plan; None if none was found.
        bound: lower bound of all plans.
        is_proven: whether the plan is proven optimal; or, if there is none, that there can be none.
    """

    plan: Plan | None
    bound: float
    is_proven: bool


def solve(instance: Instance, limit: Limit | None = None) -> Solution:
    """Find the best plan, or the best until the limit is reached; by default, after a minute."""
    return _Run(instance, limit or Limit(max_seconds=DEFAULT_SECONDS)).solve()


def explain(instance: Instance, solution: Solution, limit: Limit | None = None) -> str:
    """Explain in words why there is no plan although no single constraint rules it out."""
    if not solution.is_proven:
        return (
            "no allocation that keeps all constraints was found in the time limit; it is not proven that there is none"
        )
    if not instance.has_ample_budget:
        free = solve(replace(instance, budget=math.inf), limit)
        if free.plan is not None:
            return (
                f"no allocation keeps deadlines, min_shards and budget together, which a search has proven; without "
                f"the budget, {instance.budget:g}, there is one that costs {free.plan.cost:.6g}"
            )
    return (
        "no allocation keeps all deadlines and min_shards, which a search has proven: each task could be done in time "
        "with all learners, but each learner is in one task at most"
    )


class _Run:
    """The search for one instance."""

    def __init__(self, instance: Instance, limit: Limit) -> None:
        self._instance, self._limit = instance, limit
        self._plan: Plan | None = None
        self._bound = 0.0
        self._chance = np.random.default_rng(0)

    @property
    def _best_known(self) -> float:
        """Objective that no plan of interest exceeds."""
        if self._plan is not None:
            return self._plan.objective
        return float(self._instance.deadlines.sum()) * (1 + 10 * TOLERANCE)

    @property
    def _is_done(self) -> bool:
        return self._best_known - self._bound <= OPTIMAL * self._best_known

    def solve(self) -> Solution:
        """Alternate bounding and search until they meet."""
        instance, limit = self._instance, self._limit
        tasks, prices = frank_wolfe.assign(instance)
        self._offer(plan_for(instance, tasks))
        money_price = 0.0
        if not instance.has_ample_budget:  # as if time and money were to be had for each other in proportion
            money_price = 0.1 * self._best_known / max(instance.budget, TOLERANCE * instance.dearest_cost, _LEAST_MONEY)
        has_many = instance.num_learners > _MANY
        num_walks, num_steps, num_kicks = _EFFORT_FOR_MANY if has_many else _EFFORT
        num_steps *= instance.num_learners
        if has_many and self._plan is not None:
            self._anneal(money_price, num_walks, int(min(num_steps, limit.steps_left / 2)))
        else:
            self._descend(tasks, money_price)
        parts = np.zeros((instance.num_tasks, instance.num_learners))
        bound = Bound(value=0.0, prices=prices, intervals=self._first_intervals(), parts=parts)
        while not self._is_done:
            bound = improve(bound, self._best_known, max_ascents=_NUM_ASCENTS, limit=limit)
            self._raise(bound.value)
            if self._is_done or limit.is_over:
                break
            self._descend(bound.parts.argmax(axis=0), bound.prices.money)
            if not (table_size(bound.intervals) <= MAX_TABLE and self._finish(bound)):
                self._anneal(bound.prices.money, num_walks, num_steps)
                self._iterate(bound.prices.money, num_kicks)
                num_steps, num_kicks = 2 * num_steps, 2 * num_kicks
            bound = bound.reheated()
        is_proven = self._is_done
        return Solution(plan=self._plan, bound=self._best_known if is_proven else self._bound, is_proven=is_proven)

    def _first_intervals(self) -> Intervals:
        """Cover what a task takes with all learners up to what the others leave of the best known plan."""
        low = earliest_ends(self._instance)
        high = np.minimum(self._instance.deadlines, self._best_known - low.sum() + low)
        return Intervals.cover(self._instance, low, np.maximum(low, high), _NUM_INTERVALS)

    def _finish(self, bound: Bound) -> bool:
        """Prove the best plan, or find a better one; return whether either was done."""
        moments = to_moments(bound, self._best_known)
        if moments is None:
            return False
        if not moments.intervals.is_complete:
            self._raise(self._best_known)
            return True
        whole, knapsacks = improve_whole(moments, self._best_known, self._limit)
        self._raise(whole.value)
        if knapsacks is None:
            return True
        before = self._best_known
        for part in _PARTS:
            columns = enumerate_columns(
                whole, knapsacks, self._best_known, part=part, max_columns=_MAX_COLUMNS, limit=self._limit
            )
            if columns is None or self._limit.is_over:
                break
            sizes = {} if part == 1.0 else {"max_columns": _MAX_CHOSEN_FROM, "max_nodes": _MAX_NODES}
            choice = choose(self._instance, columns, self._best_known, limit=self._limit, **sizes)
            if choice.rows is not None:
                chosen = columns.take(choice.rows[np.argsort(columns.tasks[choice.rows])])
                self._offer(Plan.of(self._instance, chosen.members, chosen.targets))
            if part == 1.0:
                self._raise(choice.bound)
        return self._is_done or self._best_known < before

    def _descend(self, tasks: Indices, money_price: float) -> None:
        """Improve an assignment by local search."""
        if self._instance.num_learners <= _MAX_SEARCHED:
            search = LocalSearch(self._instance, tasks, money_price)
            search.descend(self._limit)
            tasks = search.tasks
        self._offer(plan_for(self._instance, tasks))

    def _anneal(self, money_price: float, num_walks: int, num_steps: int) -> None:
        """Improve assignments for targets that walks from those of the best plan have found."""
        for _ in range(num_walks):
            if self._plan is None or self._is_done or self._limit.is_over:
                return
            annealing = Annealing(self._instance, self._plan, money_price, self._chance)
            annealing.walk(num_steps, self._limit)
            self._descend(annealing.assign(), money_price)

    def _iterate(self, money_price: float, num_kicks: int) -> None:
        """Improve the best plan by local search after some learners have changed places, again and again."""
        for _ in range(num_kicks):
            if self._plan is None or self._is_done or self._limit.is_over:
                return
            tasks = self._plan.tasks
            learners = self._chance.choice(len(tasks), size=min(len(tasks), _KICKED), replace=False)
            tasks[learners] = np.roll(tasks[learners], 1)
            self._descend(tasks, money_price)

    def _offer(self, plan: Plan | None) -> None:
        if plan is not None and (self._plan is None or plan.objective < self._plan.objective):
            self._plan = plan

    def _raise(self, bound: float) -> None:
        self._bound = max(self._bound, min(bound, self._best_known))
