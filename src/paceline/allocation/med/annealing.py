"""Simulated annealing over targets, which come first; assignments of learners follow from them.

Variables: H_i, the target of each task, and x_ij, the part of learner j that task i has, Σ_i x_ij ≤ 1.
Objective: the least Σ_i H_i plus the price of the shards that are missing, D_i − Σ_j x_ij·cap_ij(H_i), in seconds.

For given targets, a price for a shard of each task shares out the learners: each goes where what it can take by the
target is worth the most. The best prices are the maximum of a concave function of as many numbers as there are tasks;
at a little temperature it is smooth, and some Newton steps find it. So targets can be tried by the thousand. They
matter, since learners take whole shards: at some moments many of them have just become able to take one more. A walk
changes one target at a time, mostly for the better, ever more so with time (Kirkpatrick, Gelatt and Vecchi, 1983). All
but a few learners are whole at the best targets found; local search makes good what is missing when those are, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.allocation.med.instance import Floats, Indices, Instance, Plan
from paceline.allocation.med.limit import Limit

_TEMPERATURE = 0.03  # part of what a learner is worth on average, for a task of one learner
_NUM_NEWTON, _NUM_COLD = 8, 20  # steps for one change, and from anywhere
_FLAT = 2.0  # temperatures that a step must promise
_RIDGE = 1e-12  # against rounding
_NUM_TRIED = 64  # targets of one task, of which one is chosen
_CHEAPEST, _DEAREST = 0.6, 1.5  # limits of a shard's price, in its price to begin with
_WARM, _COLD = 0.1, 0.01  # part of a task's time per learner, by which a change may be for the worse
_REACHES = (0.02, 0.5)  # part of the same, by which targets change
_COOLING = (100.0, 10.0, 1.0)  # temperatures on the way from no idea of prices to good ones
_COOLER = (1.0, 0.3)  # and for an assignment: the cooler, the fewer learners are in more than one task


@dataclass(frozen=True, kw_only=True, eq=False)
class _Point:
    """Targets and all that follows from them.

    Attributes:
        targets: targets of tasks, in seconds.
        most: shards that learners can take by them.
        shard_prices: prices that share out the learners.
        parts: part of each learner, by task.
        value: sum of targets and the price of what is missing.
    """

    targets: Floats
    most: Floats
    shard_prices: Floats
    parts: Floats
    value: float


class Annealing:
    """A walk over targets that starts from those of a plan."""

    def __init__(self, instance: Instance, plan: Plan, money_price: float, chance: np.random.Generator) -> None:
        self._instance, self._chance = instance, chance
        self._money = money_price * instance.prices
        rates = np.where(plan.counts > 0, 1.0 / instance.unit_seconds, 0.0).sum(axis=1)
        self._cheapest, self._dearest = _CHEAPEST / rates, _DEAREST / rates
        targets = np.array([instance.seconds(task, own).max() for task, own in enumerate(plan.counts)])
        most = instance.capacities(np.arange(instance.num_tasks), targets)
        worth = float((most / rates[:, None]).max(axis=0).mean())
        self._temperature = _TEMPERATURE * worth * instance.num_tasks / instance.num_learners
        self._best = self._now = self._cooled(targets, most, 1.0 / rates, _COOLING)

    def walk(self, num_steps: int, limit: Limit) -> None:
        """Change targets so many times."""
        instance, chance = self._instance, self._chance
        for step in range(num_steps):
            if not limit.spend():
                return
            task = int(chance.integers(instance.num_tasks))
            now = self._now
            scale = now.targets[task] * instance.num_tasks / instance.num_learners
            warmth = scale * _WARM * (_COLD / _WARM) ** (step / num_steps)
            tried, changes = self._changes(task, scale)
            weights = np.cumsum(np.exp((changes.min() - changes) / warmth))
            place = int(np.searchsorted(weights, chance.random() * weights[-1]))
            allowed = warmth * chance.exponential()
            if changes[place] > allowed:
                continue
            targets, most = now.targets.copy(), now.most.copy()
            targets[task], most[task] = tried[place], instance.capacities(task, tried[place : place + 1])[0]
            point = self._point(targets, most, now.shard_prices, self._temperature, _NUM_NEWTON, now.value + allowed)
            if point.value <= now.value + allowed:
                self._now = point
                if point.value < self._best.value:
                    self._best = point

    def assign(self) -> Indices:
        """Give each learner a task that is good for the best targets."""
        best = self._best
        tasks: Indices = self._cooled(best.targets, best.most, best.shard_prices, _COOLER).parts.argmax(axis=0)
        return tasks

    def _changes(self, task: int, scale: float) -> tuple[Floats, Floats]:
        """Draw other targets of a task, and estimate from below what they change about the value."""
        now, instance = self._now, self._instance
        reach = scale * float(np.exp(self._chance.uniform(*np.log(_REACHES))))
        tried = now.targets[task] + reach * self._chance.uniform(-1, 1, _NUM_TRIED)
        tried = np.minimum(tried, instance.deadlines[task])
        worth = (now.shard_prices[:, None] - self._money) * now.most
        own = worth[task].copy()
        worth[task] = 0.0
        other = worth.max(axis=0)
        unit_worth = now.shard_prices[task] - self._money
        # to the other learners, what the target is makes no difference
        near = np.flatnonzero(unit_worth * instance.capacities(task, tried.max(keepdims=True))[0] > other)
        most = instance.capacities(task, tried, near)
        gained = np.maximum(unit_worth[near] * most - other[near], 0.0).sum(axis=1)
        changes: Floats = tried - now.targets[task] - gained + np.maximum(own - other, 0.0).sum()
        return tried, changes

    def _cooled(self, targets: Floats, most: Floats, shard_prices: Floats, factors: tuple[float, ...]) -> _Point:
        """Find the best shard prices at one temperature after the other."""
        for factor in factors:
            point = self._point(targets, most, shard_prices, factor * self._temperature, _NUM_COLD)
            shard_prices = point.shard_prices
        return point

    def _point(
        self,
        targets: Floats,
        most: Floats,
        shard_prices: Floats,
        temperature: float,
        max_steps: int,
        limit: float = np.inf,
    ) -> _Point:
        """Find the best shard prices for targets by Newton steps; or stop once the value must exceed the limit."""
        low, high, shards = self._cheapest, self._dearest, self._instance.shards
        margin = 0.01 * (high - low)
        shard_prices = np.clip(shard_prices, low + margin, high - margin)
        value, parts = self._smooth(shard_prices, most, temperature)
        for _ in range(max_steps):
            taken = most * parts
            barrier = temperature / (shard_prices - low), temperature / (high - shard_prices)
            slope = shards - taken.sum(axis=1) + barrier[0] - barrier[1]
            bend = (np.diag((taken * most).sum(axis=1)) - taken @ taken.T) / temperature
            bend += np.diag((barrier[0] ** 2 + barrier[1] ** 2) / temperature)
            bend += np.diag(_RIDGE * np.diag(bend))
            step = np.linalg.solve(bend, slope)
            promise = float(slope @ step)
            if promise < _FLAT * temperature or float(targets.sum()) + value > limit:
                break
            room = np.where(step > 0, high - shard_prices, shard_prices - low) / np.maximum(np.abs(step), 1e-300)
            length = min(1.0, 0.9 * float(room.min()))
            while True:
                tried = shard_prices + length * step
                tried_value, parts = self._smooth(tried, most, temperature)
                if tried_value >= value + 0.1 * length * promise or length < 1e-3:
                    break
                length *= 0.4
            shard_prices, value = tried, tried_value
        missing = shards - (most * parts).sum(axis=1)
        price = float((np.where(missing > 0, high, low) * missing).sum()) + float((self._money * most * parts).sum())
        total = float(targets.sum()) + price
        return _Point(targets=targets, most=most, shard_prices=shard_prices, parts=parts, value=total)

    def _smooth(self, shard_prices: Floats, most: Floats, temperature: float) -> tuple[float, Floats]:
        """Evaluate the concave function, with a barrier at the limits, and the parts of learners that follow."""
        worth = (shard_prices[:, None] - self._money) * most
        best = worth.max(axis=0)
        parts = np.exp((worth - best) / temperature)
        sums = parts.sum(axis=0)
        parts /= sums
        barrier = np.log(shard_prices - self._cheapest).sum() + np.log(self._dearest - shard_prices).sum()
        value = shard_prices @ self._instance.shards - best.sum() + temperature * (barrier - np.log(sums).sum())
        return float(value), parts
