"""Better prices: the bound made smooth over a few cells, and climbed.

A task takes its cheapest cell, and a cell those learners that are worth more than their price; both are corners, on
which steps along a gradient get stuck. With heat, a task takes a little of every cell that is nearly the cheapest, and
a cell a part of every learner that is nearly worth its price. What results is smooth and close to the bound, the closer
the less heat there is, and L-BFGS climbs it in some dozens of steps (Nocedal, *Updating quasi-Newton matrices with
limited storage*, 1980). It proves nothing: prices found here are looked at exactly by `dual`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from paceline.allocation.med.cells import Cells, Prices
from paceline.allocation.med.instance import Floats

_MEMORY = 20  # pairs of steps and slopes that curvature is told from
_ENOUGH = 1e-4  # of what a slope promises, that a step must gain
_NUM_HALVINGS = 12
_LONGEST = 10.0  # step, in the scale of a coordinate
_FLAT = 1e-7  # of the value, that steps must promise

_Singles: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Climbed:
    """Prices, and what each task takes of each learner at them."""

    prices: Prices
    parts: Floats


def climb(
    cells: Cells, prices: Prices, *, heat: float, goal: float, num_steps: int, is_over: Callable[[], bool]
) -> Climbed:
    """Prices at which the smooth bound is about the largest, starting from these.

    Args:
        cells: with the best shard prices at these prices.
        prices: to start from.
        heat: in seconds, above 0.
        goal: that is high enough; if there is no plan, there is no top.
        num_steps: at most.
        is_over: asked at each step.
    """
    hill = _Hill(cells, prices, heat)
    point = hill.start
    value, slope = hill.at(point)
    steps: list[Floats] = []
    turns: list[Floats] = []
    for _ in range(num_steps):
        if value > goal or is_over():
            break
        is_free = (point > hill.lower) | (slope > 0)
        direction = _direction(np.where(is_free, slope, 0.0), steps, turns) * is_free
        direction *= min(1.0, _LONGEST / max(float(np.abs(direction).max(initial=0.0)), 1e-300))
        promise = float(direction @ slope)
        if promise <= _FLAT * abs(value):
            break
        length = 1.0
        for _ in range(_NUM_HALVINGS):
            tried = np.maximum(point + length * direction, hill.lower)
            tried_value, tried_slope = hill.at(tried)
            if tried_value >= value + _ENOUGH * length * promise:
                break
            length /= 2
        else:
            break
        if float((tried - point) @ (slope - tried_slope)) > 0:
            steps, turns = [*steps[1 - _MEMORY :], tried - point], [*turns[1 - _MEMORY :], slope - tried_slope]
        point, value, slope = tried, tried_value, tried_slope
    hill.at(point)
    return Climbed(prices=hill.prices_at(point), parts=hill.parts)


def _direction(slope: Floats, steps: list[Floats], turns: list[Floats]) -> Floats:
    """The slope, bent by what the last steps told of curvature."""
    direction: Floats = slope.copy()
    weights: list[float] = []
    for step, turn in zip(reversed(steps), reversed(turns), strict=True):
        weight = float(step @ direction) / float(step @ turn)
        direction -= weight * turn
        weights.append(weight)
    if steps:
        direction *= float(steps[-1] @ turns[-1]) / float(turns[-1] @ turns[-1])
    else:
        direction *= 0.01 / max(float(np.abs(direction).max(initial=0.0)), 1e-300)
    for step, turn, weight in zip(steps, turns, reversed(weights), strict=True):
        direction += (weight - float(turn @ direction) / float(step @ turn)) * step
    return direction


class _Hill:
    """The smooth bound, over prices of learners, of shards in each cell, and of money, each in its own scale.

    Attributes:
        start: the point of the prices to begin with.
        lower: the least of each coordinate.
        parts: of each learner, that each task takes at the last point that was looked at.
    """

    def __init__(self, cells: Cells, prices: Prices, heat: float) -> None:
        instance = cells.instance
        self._cells, self._heat, self._instance = cells, heat, instance
        self._most = cells.most.astype(np.float32)
        self._is_able = None if cells.most.min(initial=1.0) > 0 else cells.most > 0
        self._has_budget = not instance.has_ample_budget
        scale = max(float(np.abs(prices.learners).mean()), 1e-12)
        shard_scale = np.maximum(cells.shard_prices, 1e-3 * max(float(cells.shard_prices.max(initial=0.0)), 1e-12))
        money_scale = float(shard_scale.mean()) / max(float(instance.prices.mean()), 1e-12)
        num = instance.num_learners
        self._scales = np.concatenate([np.full(num, scale), shard_scale, [money_scale] * self._has_budget])
        start = np.concatenate([prices.learners, cells.shard_prices, [prices.money] * self._has_budget])
        self.lower = np.zeros(len(start))
        if not instance.may_idle:
            self.lower[:num] = -np.inf
        self.start = np.maximum(start / self._scales, self.lower)
        self.parts = np.zeros((instance.num_tasks, num))

    def prices_at(self, point: Floats) -> Prices:
        """In seconds again."""
        num = self._instance.num_learners
        money = float(point[-1] * self._scales[-1]) if self._has_budget else 0.0
        return Prices(learners=point[:num] * self._scales[:num], money=money)

    def at(self, point: Floats) -> tuple[float, Floats]:
        """The value, and its slope along each coordinate."""
        instance, cells, heat = self._instance, self._cells, self._heat
        prices = self.prices_at(point)
        num = instance.num_learners
        shard_prices = (point * self._scales)[num : num + len(cells)]
        counts, worth = self._worth(prices, shard_prices)
        sizes = np.exp(-np.abs(worth))
        taken = np.where(worth > 0, np.float32(1.0), sizes) / (1 + sizes)
        gained = (np.maximum(worth, 0) + np.log(1 + sizes)).sum(axis=1, dtype=np.float64)
        shards = instance.shards[cells.tasks]
        values = cells.low + shard_prices * shards - heat * gained
        starts = cells.starts[:-1]
        least = np.minimum.reduceat(values, starts)
        weights = np.exp((least[cells.tasks] - values) / heat)
        sums = np.add.reduceat(weights, starts)
        weights /= sums[cells.tasks]
        value = float((least - heat * np.log(sums)).sum()) - prices.constant(instance)
        self.parts = np.add.reduceat(weights[:, None] * taken, starts, axis=0)
        spent = counts * taken
        slopes = [
            self.parts.sum(axis=0) - 1,
            weights * (shards - spent.sum(axis=1, dtype=np.float64)),
        ]
        if self._has_budget:
            slopes.append(np.array([float(weights @ (spent @ instance.prices)) - instance.budget]))
        return value, np.concatenate(slopes) * self._scales

    def _worth(self, prices: Prices, shard_prices: Floats) -> tuple[_Singles, _Singles]:
        """How many shards of each cell a learner would take, and what it is worth beyond its price, in heats."""
        counts = self._most
        rates = shard_prices.astype(np.float32)[:, None]
        if self._has_budget:
            rates = rates - (prices.money * self._instance.prices).astype(np.float32)
            counts = np.where(rates > 0, counts, np.float32(self._instance.least))
        worth: _Singles = (rates * counts - prices.learners.astype(np.float32)) / np.float32(self._heat)
        if self._is_able is not None:
            worth[~self._is_able] = -np.inf
        return counts, worth
