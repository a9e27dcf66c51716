"""MED solved: plans and bounds get better by turns until they meet, or the time is up.

1. A first assignment (`start`), improved by local search (`search`), made into a plan (`plans`).
2. A bound from prices (`dual`), which rules out most targets, and hints at better assignments for the search.
3. As soon as few enough targets are left, the sharper bound with whole learners (`sharp`). If few enough sets of
   learners are left then (`listing`), an integer program chooses among them (`master`), and the best plan is proven.
   If not, it chooses among the most promising, which may give a better plan.
4. Where all that is too much, more local search: from assignments for targets that a walk from those of the best plan
   has found (`aim`), and from disturbed ones. With many learners, such a walk comes before the first bound.

Whenever it ends, the bound is proven. The clock is read for the time limit only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paceline.allocation.med.aim import Aim
from paceline.allocation.med.cells import Cells
from paceline.allocation.med.dual import Bound, improve
from paceline.allocation.med.greedy import earliest_ends
from paceline.allocation.med.instance import Indices, Instance, Plan
from paceline.allocation.med.listing import list_sets
from paceline.allocation.med.master import choose
from paceline.allocation.med.plans import plan_of, settle
from paceline.allocation.med.search import Search
from paceline.allocation.med.sharp import MAX_TABLE, sharpen, table_size, to_moments
from paceline.allocation.med.start import spread
from paceline.allocation.rounding import TOLERANCE

DEFAULT_TIME_LIMIT_SECONDS = 60.0
MAX_SEARCHED = 2_000
"""Learners, up to which there is local search, which looks at all pairs of them."""

OPTIMAL = 1e-7
"""Of the objective, by which the bound may be below it."""

_NUM_CELLS = 8  # of each task, to begin with
_NUM_CLIMBS = 12  # between two searches
_SETTLED = 1e-3  # heat, from which on prices hardly change
_SMALL_TABLE = 100_000  # numbers, up to which it is not worth waiting for that
_MANY = 200  # learners, above which local search takes long: prices come first, and hints must be good
_MONEY_FACTORS = (0.7, 1.0, 1.5, 2.5)  # a plan that keeps the budget may need a higher price of money than the bound
_NUM_WALKS = 10  # over targets, one after the other, unless learners are many
_SHARE_OF_WALK = 0.8  # of the time for it; what is left is for assignments
_SLACKS = (1e-3, 5e-4, 0.0)  # parts of targets, by which learners may be later than a walk over targets says
_MAX_SETS = 200_000
_MAX_CHOSEN_FROM = 3_000  # sets, where nothing is to be proven
# of the gap, that sets are listed up to: few first, since a better plan makes fewer of all
_PARTS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0)
_SHARE_OF_PART = 0.2  # of the time left, for a choice that proves nothing
_SHARE_OF_SEARCH = 0.2  # of the time left, for better plans at least, when prices hardly change
_SHARE_OF_START = 0.1  # of the time, for a plan of many learners before the first bound
_MIN_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """What was found.

    Attributes:
        plan: the best, or None.
        bound: that no plan is below.
        is_proven: the plan is optimal; or, if there is none, that there can be none.
    """

    plan: Plan | None
    bound: float
    is_proven: bool


def solve(
    instance: Instance, *, time_limit_seconds: float | None = None, clock: Callable[[], float] = time.monotonic
) -> Solution:
    """The best plan, or the best that was found when the time was up; a minute, if nothing is said."""
    limit = DEFAULT_TIME_LIMIT_SECONDS if time_limit_seconds is None else time_limit_seconds
    return _Run(instance, clock() + limit, clock).solve()


def explain(instance: Instance, solution: Solution, time_limit_seconds: float | None) -> str:
    """In words, why there is no plan although no single constraint rules it out."""
    if not solution.is_proven:
        return (
            "no allocation that keeps all constraints was found in the time limit; it is not proven that there is none"
        )
    if not instance.has_ample_budget:
        free = solve(replace(instance, budget=math.inf), time_limit_seconds=time_limit_seconds)
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

    def __init__(self, instance: Instance, end: float, clock: Callable[[], float]) -> None:
        self._instance, self._end, self._clock = instance, end, clock
        self._middle = (clock() + end) / 2
        self._plan: Plan | None = None
        self._bound = 0.0
        self._chance = np.random.default_rng(0)

    @property
    def _best_known(self) -> float:
        """No plan of interest takes longer."""
        if self._plan is not None:
            return self._plan.objective
        return float(self._instance.deadlines.sum()) * (1 + 10 * TOLERANCE)

    @property
    def _is_done(self) -> bool:
        return self._best_known - self._bound <= OPTIMAL * self._best_known

    def _is_over(self) -> bool:
        return self._clock() >= self._end

    def _left(self) -> float:
        """Seconds."""
        return max(_MIN_SECONDS, self._end - self._clock())

    def solve(self) -> Solution:
        """By turns."""
        tasks, prices = spread(self._instance)
        self._offer(settle(self._instance, tasks))
        money_price = 0.0 if self._instance.has_ample_budget else self._guess_of_money_price()
        if self._plan is None or self._instance.num_learners <= _MANY:
            self._descend(tasks, money_price)
        else:
            self._aim(money_price, self._clock() + _SHARE_OF_START * self._left())
        bound = Bound(
            value=0.0,
            prices=prices,
            cells=self._first_cells(),
            parts=np.zeros((self._instance.num_tasks, self._instance.num_learners)),
        )
        while not self._is_done:
            begin = self._clock()
            bound = self._raise(bound)
            if self._is_done or self._is_over():
                break
            spent = self._clock() - begin
            is_settled = bound.heat <= _SETTLED or self._clock() > self._middle
            if self._instance.num_learners <= _MANY:
                self._descend(bound.parts.argmax(axis=0), bound.prices.money)
            is_small = table_size(bound.cells) <= (MAX_TABLE if is_settled else _SMALL_TABLE)
            is_finished = is_small and self._finish(bound)
            if not is_finished and (is_settled or self._instance.num_learners <= _MANY):
                spent = max(spent, _SHARE_OF_SEARCH * self._left()) if is_settled else spent
                self._aim(bound.prices.money, self._clock() + spent)
                if self._instance.num_learners <= _MANY:
                    self._disturb(bound.prices.money, self._clock() + spent / 2)
            bound = bound.reheated()
        is_proven = self._is_done
        return Solution(plan=self._plan, bound=self._best_known if is_proven else self._bound, is_proven=is_proven)

    def _guess_of_money_price(self) -> float:
        """As if time and money were to be had for each other in proportion."""
        return 0.1 * self._best_known / max(self._instance.budget, TOLERANCE * self._instance.dearest_cost)

    def _first_cells(self) -> Cells:
        """From what a task takes with all learners to what the others leave of the best known plan."""
        low = earliest_ends(self._instance)
        high = np.minimum(self._instance.deadlines, self._best_known - low.sum() + low)
        return Cells.cover(self._instance, low, np.maximum(low, high), _NUM_CELLS)

    def _raise(self, bound: Bound) -> Bound:
        """A better bound."""
        bound = improve(bound, self._best_known, max_climbs=_NUM_CLIMBS, is_over=self._is_over)
        self._bound = max(self._bound, min(bound.value, self._best_known))
        return bound

    def _finish(self, bound: Bound) -> bool:
        """Prove the best plan, or find a better one; whether either was done."""
        moments = to_moments(bound, self._best_known)
        if moments is None:
            return False
        if not moments.cells.is_complete:
            self._bound = self._best_known
            return True
        sharp, covers = sharpen(moments, self._best_known, max_steps=80, is_over=self._is_over)
        self._bound = max(self._bound, min(sharp.value, self._best_known))
        if covers is None or self._is_over():
            return covers is None
        before = self._best_known
        for part in _PARTS:
            choices = list_sets(sharp, covers, self._best_known, part=part, max_sets=_MAX_SETS, is_over=self._is_over)
            if choices is None or self._is_over():
                break
            is_all = part == 1.0
            choice = choose(
                self._instance,
                choices,
                self._best_known,
                max_rows=None if is_all else _MAX_CHOSEN_FROM,
                time_limit_seconds=self._left() * (1.0 if is_all else _SHARE_OF_PART),
            )
            if choice.rows is not None:
                chosen = choices.take(choice.rows[np.argsort(choices.tasks[choice.rows])])
                self._offer(plan_of(self._instance, chosen.members, chosen.targets))
            if is_all:
                self._bound = max(self._bound, min(choice.bound, self._best_known))
        return self._is_done or self._best_known < before

    def _descend(self, tasks: Indices, money_price: float) -> None:
        """Local search from an assignment."""
        if self._instance.num_learners > MAX_SEARCHED:
            self._offer(settle(self._instance, tasks))
            return
        for factor in _MONEY_FACTORS:
            search = Search(self._instance, tasks, factor * money_price)
            search.descend(self._is_over)
            tasks = search.tasks
            self._offer(settle(self._instance, tasks))
            if self._instance.has_ample_budget or self._is_over():
                break

    def _aim(self, money_price: float, end: float) -> None:
        """Local search from assignments for targets that walks from those of the best plan have found."""
        begin, end = self._clock(), min(end, self._end)
        num_walks = _NUM_WALKS if self._instance.num_learners <= _MANY else 1
        for number in range(num_walks):
            if self._plan is None or self._is_done or self._clock() >= end:
                return
            aim = Aim(self._instance, self._plan, money_price, self._chance)
            aim.walk(self._progress(begin + (end - begin) * (number + _SHARE_OF_WALK) / num_walks))
            for slack in _SLACKS:
                if self._is_over():
                    return
                self._descend(aim.assign(slack), money_price)

    def _progress(self, end: float) -> Callable[[], float]:
        """How much of the time from now until then is over, as a part of 1."""
        begin = self._clock()
        return lambda: (self._clock() - begin) / max(end - begin, 1e-9)

    def _disturb(self, money_price: float, end: float) -> None:
        """Local search from the best plan, some learners of which have changed places; again and again."""
        tasks = spread(self._instance)[0] if self._plan is None else self._plan.tasks
        search = Search(self._instance, tasks, money_price)
        best, best_tasks = search.total, search.tasks.copy()
        while self._clock() < min(end, self._end):
            learners = self._chance.choice(len(tasks), size=min(len(tasks), 6), replace=False)
            search.move(learners, np.roll(search.tasks[learners], 1))
            search.descend(self._is_over)
            if search.total < best:
                best, best_tasks = search.total, search.tasks.copy()
                self._offer(settle(self._instance, best_tasks))
            else:
                changed = np.flatnonzero(search.tasks != best_tasks)
                search.move(changed, best_tasks[changed])

    def _offer(self, plan: Plan | None) -> None:
        if plan is not None and (self._plan is None or plan.objective < self._plan.objective):
            self._plan = plan
