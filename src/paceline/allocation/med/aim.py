"""Assignments for targets that are set first.

With a target for each task, what is left is to share out the learners, and a price for a shard of each task does that:
a learner goes where what it can take by the target is worth the most. If parts of learners are allowed, the best prices
are the maximum of a concave function of as many numbers as there are tasks; with a little heat it is smooth, and some
Newton steps find it. What is missing then from the shards, at its price, tells how good the targets are.

So targets can be tried by the thousand. They matter, since learners take whole shards: at some moments many of them
have just become able to take one more. A walk changes one target at a time, mostly for the better, ever more so with
time (simulated annealing: Kirkpatrick, Gelatt and Vecchi, 1983). All but a few learners are whole at the best targets
found. When those are put somewhere, some exchanges make good most of what is missing then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from paceline.allocation.med.instance import Floats, Indices, Instance, Plan
from paceline.allocation.rounding import TOLERANCE

_HEAT = 0.03  # of what a learner is worth on average, for a task of one learner
_NUM_NEWTON, _NUM_COLD = 8, 20  # steps for one change, and from anywhere
_FLAT = 2.0  # heats, that a step must promise
_RIDGE = 1e-12  # against rounding
_NUM_TRIED = 64  # targets of one task, of which one is chosen
_CHEAPEST, _DEAREST = 0.6, 1.5  # that a shard may become, of its price to begin with
_WARM, _COLD = 0.1, 0.01  # of a task's time per learner, that a change for the worse costs now and then
_REACHES = (0.02, 0.5)  # of the same, by which targets change
_COOLING = (100.0, 30.0, 10.0, 3.0, 1.0)  # heats on the way from no idea of prices to good ones
_COOLER = (1.0, 0.3)  # and for an assignment: the less heat, the fewer learners are in more than one task
_EXCESSES = (1.0, 0.3, 0.1, 0.03, 0.01)  # what a shard more than needed is worth: first do what wastes nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class _Point:
    """Targets and all that follows from them.

    Attributes:
        targets: of tasks, in seconds.
        most: what learners can take by them.
        shard_prices: that share out the learners.
        parts: of learners, by task.
        value: the sum of targets and the price of what is missing.
    """

    targets: Floats
    most: Floats
    shard_prices: Floats
    parts: Floats
    value: float


class Aim:
    """A walk over targets that starts from those of a plan."""

    def __init__(self, instance: Instance, plan: Plan, money_price: float, chance: np.random.Generator) -> None:
        self._instance, self._chance = instance, chance
        self._money = money_price * instance.prices
        rates = np.where(plan.counts > 0, 1.0 / instance.unit_seconds, 0.0).sum(axis=1)
        self._cheapest, self._dearest = _CHEAPEST / rates, _DEAREST / rates
        targets = np.array([instance.seconds(task, own).max() for task, own in enumerate(plan.counts)])
        most = instance.capacities(np.arange(instance.num_tasks), targets)
        heat = float((most / rates[:, None]).max(axis=0).mean()) * instance.num_tasks / instance.num_learners
        shard_prices = 1.0 / rates
        for part in _COOLING:
            self._heat = part * _HEAT * heat
            self._best = self._now = self._point(targets, most, shard_prices, _NUM_COLD)
            shard_prices = self._now.shard_prices

    def walk(self, progress: Callable[[], float]) -> None:
        """Change targets until the progress is 1; it begins at 0."""
        instance, chance = self._instance, self._chance
        share = instance.num_tasks / instance.num_learners
        while (done := progress()) < 1:
            task = int(chance.integers(instance.num_tasks))
            now = self._now
            scale = now.targets[task] * share
            warmth = scale * _WARM ** (1 - done) * _COLD**done
            tried, changes = self._changes(task, scale)
            weights = np.cumsum(np.exp((changes.min() - changes) / warmth))
            place = int(np.searchsorted(weights, chance.random() * weights[-1]))
            limit = warmth * chance.exponential()
            if changes[place] > limit:
                continue
            targets, most = now.targets.copy(), now.most.copy()
            targets[task], most[task] = tried[place], self._most_of(task, tried[place : place + 1])[0]
            point = self._point(targets, most, now.shard_prices, _NUM_NEWTON, now.value + limit)
            if point.value <= now.value + limit:
                self._now = point
                if point.value < self._best.value:
                    self._best = point

    def assign(self, slack: float) -> Indices:
        """A task for each learner that is good for the best targets, or for later ones by a part `slack`."""
        best = self._best
        targets = np.minimum(best.targets * (1 + slack), self._instance.deadlines)
        most = self._instance.capacities(np.arange(len(targets)), targets)
        point, heat = best, self._heat
        for part in _COOLER:
            self._heat = part * heat
            point = self._point(targets, most, point.shard_prices, _NUM_COLD)
        self._heat = heat
        tasks: Indices = point.parts.argmax(axis=0)
        for excess in _EXCESSES:
            tasks = _exchanged(self._instance, tasks, most, point.shard_prices, excess)
        return tasks

    def _changes(self, task: int, scale: float) -> tuple[Floats, Floats]:
        """Other targets of a task, and the least that they change about the value."""
        now, instance = self._now, self._instance
        reach = scale * float(np.exp(self._chance.uniform(*np.log(_REACHES))))
        tried = now.targets[task] + reach * self._chance.uniform(-1, 1, _NUM_TRIED)
        tried = np.minimum(tried, instance.deadlines[task])
        worth = (now.shard_prices[:, None] - self._money) * now.most
        own = worth[task].copy()
        worth[task] = 0.0
        other = worth.max(axis=0)
        unit_worth = now.shard_prices[task] - self._money
        # of the others, what the target is makes no difference
        near = np.flatnonzero(unit_worth * self._most_of(task, tried.max(keepdims=True))[0] > other)
        most = self._most_of(task, tried, near)
        gained = np.maximum(unit_worth[near] * most - other[near], 0.0).sum(axis=1)
        changes: Floats = tried - now.targets[task] - gained + np.maximum(own - other, 0.0).sum()
        return tried, changes

    def _most_of(self, task: int, targets: Floats, learners: Indices | slice = slice(None)) -> Floats:
        """What some learners can take of a task by some targets, a row each."""
        instance = self._instance
        fixed, unit = instance.fixed_seconds[task, learners], instance.unit_seconds[task, learners]
        counts = np.floor((targets[:, None] * (1 + TOLERANCE) - fixed) / unit)
        counts[counts < instance.least] = 0.0
        most: Floats = np.minimum(counts, instance.shards[task])
        return most

    def _point(
        self, targets: Floats, most: Floats, shard_prices: Floats, num_steps: int, limit: float = np.inf
    ) -> _Point:
        """The best shard prices for these targets; or some, if they show already that the value exceeds the limit."""
        heat, low, high = self._heat, self._cheapest, self._dearest
        margin = 0.01 * (high - low)
        shard_prices = np.clip(shard_prices, low + margin, high - margin)
        value, parts = self._smooth(shard_prices, most)
        for _ in range(num_steps):
            taken = most * parts
            slope = self._missing(taken) + heat / (shard_prices - low) - heat / (high - shard_prices)
            bend = (np.diag((taken * most).sum(axis=1)) - taken @ taken.T) / heat
            bend += np.diag(heat / (shard_prices - low) ** 2 + heat / (high - shard_prices) ** 2)
            bend += np.diag(_RIDGE * np.diag(bend))
            step = np.linalg.solve(bend, slope)
            promise = float(slope @ step)
            if promise < _FLAT * heat or float(targets.sum()) + value > limit:
                break
            room = np.where(step > 0, high - shard_prices, shard_prices - low) / np.maximum(np.abs(step), 1e-300)
            length = min(1.0, 0.9 * float(room.min()))
            while True:
                tried = shard_prices + length * step
                tried_value, parts = self._smooth(tried, most)
                if tried_value >= value + 0.1 * length * promise or length < 1e-3:
                    break
                length *= 0.4
            shard_prices, value = tried, tried_value
        missing = self._missing(most * parts)
        price = float((np.where(missing > 0, high, low) * missing).sum()) + float((self._money * most * parts).sum())
        return _Point(
            targets=targets,
            most=most,
            shard_prices=shard_prices,
            parts=parts,
            value=float(targets.sum()) + price,
        )

    def _missing(self, taken: Floats) -> Floats:
        missing: Floats = self._instance.shards - taken.sum(axis=1)
        return missing

    def _smooth(self, shard_prices: Floats, most: Floats) -> tuple[float, Floats]:
        """What is to be the largest, and the parts of learners that go to each task."""
        heat = self._heat
        worth = (shard_prices[:, None] - self._money) * most
        best = worth.max(axis=0)
        parts = np.exp((worth - best) / heat)
        sums = parts.sum(axis=0)
        parts /= sums
        barrier = np.log(shard_prices - self._cheapest).sum() + np.log(self._dearest - shard_prices).sum()
        value = shard_prices @ self._instance.shards - best.sum() - heat * np.log(sums).sum() + heat * barrier
        return float(value), parts


def _exchanged(instance: Instance, tasks: Indices, most: Floats, shard_prices: Floats, excess: float) -> Indices:
    """Learners join a task that lacks shards, or change places with one of its own, as long as less is missing then."""
    tasks, everyone = tasks.copy(), np.arange(instance.num_learners)
    missing = instance.shards - np.bincount(tasks, weights=most[tasks, everyone], minlength=instance.num_tasks)
    stuck = np.zeros(instance.num_tasks, dtype=bool)
    while np.any((missing > 0) & ~stuck):
        task = int(np.where(stuck, -np.inf, shard_prices * missing).argmax())
        own = np.flatnonzero(tasks == task)
        # the last row is for nobody who leaves
        gained = most[task] - np.append(most[task, own], 0.0)[:, None]
        lost = most[tasks, everyone] - np.append(most[:, own][tasks].T, np.zeros((1, len(everyone))), axis=0)
        changes = shard_prices[task] * _eased(missing[task], gained, excess)
        changes = changes + shard_prices[tasks] * _eased(missing[tasks], -lost, excess)
        changes[:, own] = np.inf
        leaver, joiner = divmod(int(changes.argmin()), len(everyone))
        if changes[leaver, joiner] >= 0:
            stuck[task] = True
            continue
        source = tasks[joiner]
        missing[task] -= gained[leaver, joiner]
        missing[source] += lost[leaver, joiner]
        tasks[joiner] = task
        if leaver < len(own):
            tasks[own[leaver]] = source
        stuck[[task, source]] = False
    return tasks


def _eased(missing: Floats, gained: Floats, excess: float) -> Floats:
    """By how many shards it changes what is missing; what is more than needed counts a little, too."""
    changes: Floats = np.maximum(missing - gained, 0.0) - np.maximum(missing, 0.0) - excess * gained
    return changes
