"""How fast a device is likely to be in its next round, from how fast it was in the past ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_LEAST_SPREAD = 1.05  # a few quiet rounds prove little
_CHANGE = 1.4  # less than this is left to the quantiles, which follow in time
_MIN_OLDER = 3  # rounds, before two more can be called a change


class Pace(NamedTuple):
    """Seconds per byte or per sample that the next round is likely to take, from the fast to the slow side."""

    fast: float
    middle: float
    slow: float


def estimate(past: Sequence[float], *, optimism: float, caution: float) -> Pace:
    """The pace of the next round.

    Args:
        past: seconds per unit of past rounds, oldest first; at least one, all above 0.
        optimism: how many of the past rounds are not faster than `fast`, as a ratio.
        caution: how many spreads `slow` is from the middle. A spread is a factor: that from the fastest to the
            slowest tenth of the rounds, halved (its square root), so that an accident or two do not count.
    """
    settled = sorted(_settle(past))
    middle = _quantile(settled, 0.5)
    spread = math.sqrt(_quantile(settled, 0.9) / _quantile(settled, 0.1))
    slow = middle * max(spread, _LEAST_SPREAD) ** caution
    if past[-1] > slow:  # an accident, or the first of slower times: cautious until the next round tells
        slow *= past[-1] / middle
    return Pace(_quantile(settled, 1 - optimism), middle, slow)


def _settle(past: Sequence[float]) -> list[float]:
    """The past as if the device had always been at its present level.

    Two rounds in a row that are both far off to the same side are a change that will stay. The rounds before it are
    scaled to the new level, because what they tell of the spread is still true. One such round alone is an accident.
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
