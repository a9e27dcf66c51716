"""Local search: learners move to another task, or two of them change places, as long as that helps.

For every task there is a grid of targets around its own. What its members can take together by each of them, less what
one of them can, plus what another learner could, gives at once the target after that exchange, for all pairs. With a
price of money, ν, a task's value is its target plus ν times the cost of its shards. Deadlines may be missed, at a price
that makes it worth a lot to keep them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paceline.allocation.med.instance import IDLE, Floats, Indices, Instance
from paceline.allocation.med.limit import Limit
from paceline.allocation.rounding import TOLERANCE

_MIN_GRID, _MAX_GRID = 20, 160
_MAX_NUMBERS = 4_000_000  # of a grid times all pairs of one task
_MAX_MOMENTS = 4_000
_LATE = 1e3  # seconds that one after the deadline counts as
_NEVER = 1e15  # seconds that a task counts as that cannot be done
_REACH = 2.5  # average learners' worth of time that a grid reaches to either side


class LocalSearch:
    """An assignment of learners to tasks that gets better.

    Attributes:
        tasks: task of each learner, or `IDLE`.
        values: value of each task: its target, plus the price of its shards and of being late.
    """

    def __init__(self, instance: Instance, tasks: Indices, money_price: float = 0.0) -> None:
        alone = instance.fixed_seconds + instance.unit_seconds * instance.shards[:, None]
        self._deadlines = instance.deadlines * (1 + TOLERANCE)
        self._instance = replace(instance, deadlines=np.maximum(instance.deadlines, alone.max(axis=1)))
        self._money = money_price
        num_tasks, num_learners = instance.num_tasks, instance.num_learners
        self.tasks = tasks.copy()
        self.values = np.full(num_tasks, _NEVER)
        # by how much a learner's task changes if it leaves for another one or for none, and a task if one joins
        self._exchanging = np.zeros((num_learners, num_learners))
        self._leaving = np.zeros(num_learners)
        self._joining = np.zeros((num_tasks, num_learners))
        for task in range(num_tasks):
            self._evaluate(task)

    @property
    def total(self) -> float:
        """Sum of the tasks' values, which is to be the least."""
        return float(self.values.sum())

    def descend(self, limit: Limit) -> None:
        """Make changes as long as they help."""
        while limit.spend():
            before, tasks = self.total, self.tasks.copy()
            if not self._step():
                return
            if self.total >= before * (1 - TOLERANCE):
                # where the grid is too coarse, or costs were guessed too low
                self.tasks = tasks
                return

    def _step(self) -> bool:
        """Make the best changes that touch no task twice; return whether there were any."""
        instance = self._instance
        num = instance.num_learners
        threshold = -TOLERANCE * self.total
        pairs = self._exchanging + self._exchanging.T
        found: list[tuple[float, list[tuple[int, int]]]] = []
        for flat in _lowest(pairs, threshold).tolist():
            one, other = divmod(flat, num)
            if one < other:
                found.append((pairs[one, other], [(one, int(self.tasks[other])), (other, int(self.tasks[one]))]))
        moves = self._leaving + self._joining
        for flat in _lowest(moves, threshold).tolist():
            task, learner = divmod(flat, num)
            found.append((moves[task, learner], [(learner, task)]))
        if instance.may_idle:
            found += [(self._leaving[k], [(k, IDLE)]) for k in _lowest(self._leaving, threshold).tolist()]
        touched: set[int] = set()
        for _, change in sorted(found, key=lambda item: item[0]):
            involved = {task for _, task in change} | {int(self.tasks[learner]) for learner, _ in change}
            if not touched & involved:
                touched |= involved - {IDLE}
                for learner, task in change:
                    self._put(learner, task)
        for task in touched:
            self._evaluate(task)
        return bool(touched)

    def _put(self, learner: int, task: int) -> None:
        self.tasks[learner] = task
        if task == IDLE:
            self._leaving[learner] = 0.0
            self._exchanging[learner] = np.where(self.tasks == IDLE, _NEVER, 0.0)

    def _evaluate(self, task: int) -> None:
        """Find a task's value, and what every exchange would change about it."""
        instance = self._instance
        is_member = self.tasks == task
        members = np.flatnonzero(is_member)
        grid = self._grid(task, members, float(instance.fewest_seconds(task, is_member[None, :])[0]))
        most = instance.capacities(task, grid)
        # the last column and row are for nobody who comes or leaves
        ins = np.append(most, np.zeros((len(grid), 1)), axis=1)
        outs = np.append(most[:, members], np.zeros((len(grid), 1)), axis=1)
        needs = instance.shards[task] - outs.sum(axis=1, keepdims=True) + outs
        if not instance.may_idle:
            # all that stay need time for their least, and so does the one that comes
            is_short = np.append(outs[:, :-1] == 0, np.zeros((len(grid), 1), dtype=bool), axis=1)
            needs[is_short.sum(axis=1, keepdims=True) - is_short > 0] = _NEVER
            ins[:, :-1][most == 0] = -_NEVER
        late = grid + _LATE * np.maximum(grid - self._deadlines[task], 0.0)
        if self._money:
            costs, saved = self._costs(task, members, most)
            cost = (costs[:, None] + saved[:, np.append(members, -1)])[:, :, None] - saved[:, None, :]
            is_enough = ins[:, None, :] >= needs[:, :, None]
            values = np.where(is_enough, late[:, None, None] + self._money * cost, _NEVER).min(axis=0)
        else:  # the first target by which there is enough: there is by every later one
            num_short = np.add.reduce(ins[:, None, :] < needs[:, :, None], axis=0, dtype=np.intp)
            values = np.append(late, _NEVER)[num_short]
        if not instance.may_idle:
            num_after = len(members) + 1 - np.append(np.ones(len(members)), 0)[:, None] - (ins[-1] == 0)
            values[num_after * instance.least > instance.shards[task]] = _NEVER
        self.values[task] = values[-1, -1]
        changes = values - values[-1, -1]
        changes[:-1, members] = _NEVER
        self._exchanging[members] = changes[:-1, :-1]
        self._leaving[members] = changes[:-1, -1]
        self._joining[task] = np.where(is_member, _NEVER, changes[-1, :-1])

    def _costs(self, task: int, members: Indices, most: Floats) -> tuple[Floats, Floats]:
        """Cost of a task's shards by each target, and what each learner saves of it: exact for the members.

        Shards go to the cheapest first, up to a marginal price. As seen from that price, a learner saves the same
        whoever the others are, as long as an exchange does not change it; for others it is the most they can save.
        """
        instance = self._instance
        least = 0.0 if instance.may_idle else float(instance.least)
        order = members[np.argsort(instance.prices[members], kind="stable")]
        taken = np.cumsum(np.maximum(most[:, order] - least, 0.0), axis=1) + least * len(members)
        marginal = np.full((len(most), 1), float(instance.prices.max()))
        if len(order):
            places = np.minimum((taken < instance.shards[task]).sum(axis=1), len(order) - 1)
            marginal = instance.prices[order[places]][:, None]
        saved = (marginal - instance.prices) * np.where(instance.prices < marginal, most, least)
        saved = np.append(np.where(most > 0, saved, 0.0), np.zeros((len(most), 1)), axis=1)
        return marginal[:, 0] * instance.shards[task] - saved[:, members].sum(axis=1), saved

    def _grid(self, task: int, members: Indices, target: float) -> Floats:
        """Moments at which some learner is done with a shard: all that are near the target, and some further off."""
        deadline = float(self._instance.deadlines[task])
        if not np.isfinite(target):
            return np.linspace(deadline / _MAX_GRID, deadline, _MAX_GRID)
        size = _MAX_NUMBERS // ((len(members) + 1) * (self._instance.num_learners + 1))
        size = min(_MAX_GRID, max(_MIN_GRID, size))
        reach = _REACH * target / max(1, len(members))
        # money may ask for much later targets
        above, num_far = (max(reach, 2.0 * target), 3 * _MIN_GRID) if self._money else (reach, _MIN_GRID)
        far = np.linspace(max(0.0, target - reach), min(deadline, target + above), num_far)
        near = self._moments(task, target - reach, target + above)
        order = np.argsort(np.abs(near - target), kind="stable")
        return np.unique(np.concatenate([near[order[:size]], far, [target, deadline]]))

    def _moments(self, task: int, low: float, high: float) -> Floats:
        """When learners are done with a shard, in an interval; without those far from its middle if there are many."""
        fixed, unit = self._instance.fixed_seconds[task], self._instance.unit_seconds[task]
        part = min(1.0, _MAX_MOMENTS / max(1.0, float(((high - low) / unit).sum())))
        low, high = (low + high) / 2 - part * (high - low) / 2, (low + high) / 2 + part * (high - low) / 2
        first = np.maximum(self._instance.least, np.ceil((low - fixed) / unit))
        places = np.arange(min(_MAX_MOMENTS, int((high - low) / unit.min()) + 1) + 1)
        moments = (fixed + unit * first)[:, None] + unit[:, None] * places
        return np.unique(moments[(moments <= high) & (moments >= low)])


def _lowest(numbers: Floats, threshold: float, most: int = 200) -> Indices:
    """Flat indices of those below a threshold, not all if they are many."""
    flat = numbers.ravel()
    below = np.flatnonzero(flat < threshold)
    if len(below) > most:
        below = below[np.argpartition(flat[below], most)[:most]]
    return below
