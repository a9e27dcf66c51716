"""Estimate of a device's speed in its next round, from its past rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_LEAST_SPREAD = 1.05  # a few quiet rounds prove little
_CHANGE = 1.4  # smaller changes are left to the quantiles, which follow in time
_MIN_OLDER = 3  # rounds before a change can be recognised


class Pace(NamedTuple):
    """Likely seconds per byte or per sample in the next round, from the fast to the slow side."""

    fast: float
    middle: float
    slow: float


def estimate(past: Sequence[float], *, optimism: float, caution: float) -> Pace:
    """Estimate the pace of the next round.

    Args:
        past: seconds per unit of past rounds, oldest first; at least one, all above 0.
        optimism: share of the past rounds that are not faster than `fast`.
        caution: spreads from the median to `slow`. A spread is a factor: the square root of that between the fastest
            and the slowest tenth of the rounds, so that an outlier or two do not count.
    """
    settled = sorted(_settle(past))
    middle = _quantile(settled, 0.5)
    spread = math.sqrt(_quantile(settled, 0.9) / _quantile(settled, 0.1))
    slow = middle * max(spread, _LEAST_SPREAD) ** caution
    if past[-1] > slow:  # an outlier, or the start of slower times: be cautious until the next round
        slow *= past[-1] / middle
    return Pace(_quantile(settled, 1 - optimism), middle, slow)


def _settle(past: Sequence[float]) -> list[float]:
    """Scale past rounds to the device's present level.

    Two rounds in a row that are far off to the same side are taken as a lasting change. The rounds before it are scaled
    to the new level, because their spread still holds. A single such round is an outlier.
    """
    settled: list[float] = []
    for value in past:
        settled.append(value)
        older, newest = settled[:-2], settled[-2:]
        if len(older) < _MIN_OLDER:
            continue
        middle = _quantile(sorted(older), 0.5)
        if min(newest) > middle * _CHANGE or max(newest) < middle / _CHANGE:
            shift = math.sqrt(newest[0] * newest[1]) / middle
            settled = [value * shift for value in older] + newest
    return settled


def _quantile(ordered: Sequence[float], ratio: float) -> float:
    position = ratio * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
