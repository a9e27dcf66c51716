"""Better prices for the Lagrangian bound: the bound made smooth over a few intervals, and maximised by L-BFGS.

A task takes its cheapest interval, and an interval those learners that are worth more than their price; both make
corners, on which steps along a gradient get stuck. At a temperature h, in seconds, minima become soft: a task takes
a little of every interval that is nearly the cheapest, an interval a part of each learner nearly worth its price:

    maximise −h·Σ_i log Σ_{r of i} exp(−v_r/h) − Σ_j μ_j − ν·budget   over μ, ν and a shard price λ_r for each interval,
    v_r = low_r + λ_r·D − h·Σ_j log(1 + exp(((λ_r − ν·p_j)·cap_rj − μ_j)/h)).

That is smooth and close to the bound, the closer the lower h is (Nocedal, *Updating quasi-Newton matrices with limited
storage*, 1980). It proves nothing: `lagrangian` computes the bound of the prices found here. SciPy's L-BFGS-B finds as
good ones, but takes longer to import than a small problem takes to solve.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from paceline.allocation.med.instance import Floats
from paceline.allocation.med.intervals import Intervals, Prices
from paceline.allocation.med.limit import Limit

_MEMORY = 20  # pairs of steps and gradients that curvature is estimated from
_ENOUGH = 1e-4  # part of what a gradient promises that a step must gain
_NUM_HALVINGS = 12
_LONGEST = 10.0  # step, in the scale of a coordinate
_FLAT = 1e-7  # part of the value that a step must promise
_STRAIGHT = 1e-15  # cosine between a step and its turn, below which they say nothing about curvature

_Singles: TypeAlias = npt.NDArray[np.float32]


def ascend(
    intervals: Intervals, prices: Prices, *, temperature: float, goal: float, max_steps: int, limit: Limit
) -> tuple[Prices, Floats]:
    """Find prices at which the smooth bound is about the largest, and the part of each learner each task takes then.

    Args:
        intervals: intervals with the best shard prices at these prices.
        prices: prices to start from.
        temperature: temperature in seconds, above 0.
        goal: value that is high enough; if there is no plan, there is no maximum.
    """
    dual = SmoothDual(intervals, prices, temperature)
    point = dual.start
    value, gradient = dual.at(point)
    turns: list[Turn] = []
    for _ in range(max_steps):
        if value > goal or not limit.spend():
            break
        is_free = (point > dual.lower) | (gradient > 0)
        direction = _direction(np.where(is_free, gradient, 0.0), turns) * is_free
        direction *= min(1.0, _LONGEST / max(float(np.abs(direction).max(initial=0.0)), 1e-300))
        promise = float(direction @ gradient)
        if promise <= _FLAT * abs(value):
            break
        length = 1.0
        for _ in range(_NUM_HALVINGS):
            tried = np.maximum(point + length * direction, dual.lower)
            tried_value, tried_gradient = dual.at(tried)
            if tried_value >= value + _ENOUGH * length * promise:
                break
            length /= 2
        else:
            break
        turn = Turn.of(tried - point, gradient - tried_gradient)
        if turn is not None:
            turns = [*turns[1 - _MEMORY :], turn]
        point, value, gradient = tried, tried_value, tried_gradient
    dual.at(point)
    return dual.prices_at(point), dual.parts


class Turn(NamedTuple):
    """A step, by how much it turned the gradient, and the curvature that this shows, above 0."""

    step: Floats
    change: Floats
    curvature: float
    scale: float

    @classmethod
    def of(cls, step: Floats, change: Floats) -> Turn | None:
        """Keep a step; None if it shows no curvature, or one that is lost in rounding."""
        curvature, square = float(step @ change), float(change @ change)
        if square == 0 or not curvature > _STRAIGHT * math.sqrt(square) * math.sqrt(float(step @ step)):
            return None
        return cls(step, change, curvature, curvature / square)


def _direction(gradient: Floats, turns: list[Turn]) -> Floats:
    """Multiply the gradient by the inverse curvature that the last steps show (the two loops of L-BFGS)."""
    direction: Floats = gradient.copy()
    weights: list[float] = []
    for turn in reversed(turns):
        weight = float(turn.step @ direction) / turn.curvature
        direction -= weight * turn.change
        weights.append(weight)
    if turns:
        direction *= turns[-1].scale
    else:
        direction *= 0.01 / max(float(np.abs(direction).max(initial=0.0)), 1e-300)
    for turn, weight in zip(turns, reversed(weights), strict=True):
        direction += (weight - float(turn.change @ direction) / turn.curvature) * turn.step
    return direction


class SmoothDual:
    """The smooth bound over prices of learners, of shards in each interval, and of money, each in its own scale.

    Attributes:
        start: the point of the prices to begin with.
        lower: the least value of each coordinate.
        parts: part of each learner that each task takes at the last point evaluated.
    """

    def __init__(self, intervals: Intervals, prices: Prices, temperature: float) -> None:
        instance = intervals.instance
        self._intervals, self._temperature, self._instance = intervals, temperature, instance
        self._most = intervals.most.astype(np.float32)
        self._has_budget = not instance.has_ample_budget
        scale = max(float(np.abs(prices.learners).mean()), 1e-12)
        dearest = max(float(intervals.shard_prices.max(initial=0.0)), 1e-12)
        shard_scale = np.maximum(intervals.shard_prices, 1e-3 * dearest)
        money_scale = float(shard_scale.mean()) / max(float(instance.prices.mean()), 1e-12)
        num = instance.num_learners
        self._scales = np.concatenate([np.full(num, scale), shard_scale, [money_scale] * self._has_budget])
        start = np.concatenate([prices.learners, intervals.shard_prices, [prices.money] * self._has_budget])
        self.lower = np.zeros(len(start))
        if not instance.may_idle:
            self.lower[:num] = -np.inf
        self.start = np.maximum(start / self._scales, self.lower)
        self.parts = np.zeros((instance.num_tasks, num))

    def prices_at(self, point: Floats) -> Prices:
        """Convert a point to prices in seconds."""
        num = self._instance.num_learners
        money = float(point[-1] * self._scales[-1]) if self._has_budget else 0.0
        return Prices(learners=point[:num] * self._scales[:num], money=money)

    def at(self, point: Floats) -> tuple[float, Floats]:
        """Evaluate the smooth bound and its gradient."""
        instance, intervals, temperature = self._instance, self._intervals, self._temperature
        prices = self.prices_at(point)
        num = instance.num_learners
        shard_prices = (point * self._scales)[num : num + len(intervals)]
        counts, worth = self._worth(prices, shard_prices)
        sizes = np.exp(-np.abs(worth))
        taken = np.where(worth > 0, np.float32(1.0), sizes) / (1 + sizes)
        gained = (np.maximum(worth, 0) + np.log(1 + sizes)).sum(axis=1, dtype=np.float64)
        shards = instance.shards[intervals.tasks]
        values = intervals.low + shard_prices * shards - temperature * gained
        starts = intervals.starts[:-1]
        least = np.minimum.reduceat(values, starts)
        weights = np.exp((least[intervals.tasks] - values) / temperature)
        sums = np.add.reduceat(weights, starts)
        weights /= sums[intervals.tasks]
        value = float((least - temperature * np.log(sums)).sum()) - prices.constant(instance)
        self.parts = np.add.reduceat(weights[:, None] * taken, starts, axis=0)
        spent = counts * taken
        gradient = [self.parts.sum(axis=0) - 1, weights * (shards - spent.sum(axis=1, dtype=np.float64))]
        if self._has_budget:
            gradient.append(np.array([float(weights @ (spent @ instance.prices)) - instance.budget]))
        return value, np.concatenate(gradient) * self._scales

    def _worth(self, prices: Prices, shard_prices: Floats) -> tuple[_Singles, _Singles]:
        """Count the shards a learner would take in each interval, and its worth beyond its price, in temperatures."""
        counts = self._most
        rates = shard_prices.astype(np.float32)[:, None]
        if self._has_budget:
            rates = rates - (prices.money * self._instance.prices).astype(np.float32)
            counts = np.where(rates > 0, counts, np.float32(self._instance.least))
        worth: _Singles = (rates * counts - prices.learners.astype(np.float32)) / np.float32(self._temperature)
        worth[self._most == 0] = -np.inf
        return counts, worth
