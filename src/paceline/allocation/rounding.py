"""Whole numbers from times: how many units fit, and even splits."""

from __future__ import annotations

import math
from collections.abc import Sequence

TOLERANCE = 1e-9
"""Share of a time limit by which it may be overrun, because sums may differ in the last of sixteen digits."""


def units_within(limit_seconds: float, *, fixed_seconds: float, unit_seconds: float, most: int) -> int:
    """Return the largest n up to `most` with fixed + n · unit ≤ limit; 0 if there is none."""
    left_seconds = limit_seconds * (1 + TOLERANCE) - fixed_seconds
    if left_seconds <= 0:
        return 0
    return most if left_seconds >= most * unit_seconds else math.floor(left_seconds / unit_seconds)


def units_to_fill(limit_seconds: float, *, fixed_seconds: float, unit_seconds: float, most: int) -> int:
    """Return the least n with fixed + n · unit ≥ limit, or `most` if that is less."""
    left_seconds = limit_seconds * (1 - TOLERANCE) - fixed_seconds
    if left_seconds <= 0:
        return 0
    return most if left_seconds >= most * unit_seconds else math.ceil(left_seconds / unit_seconds)


def split_evenly(total: int, caps: Sequence[int]) -> list[int]:
    """Split a total as evenly as caps allow, the remainder to the first; parts add up to the total or to the caps."""
    level = _level(total, caps)
    parts = [min(cap, level) for cap in caps]
    left = total - sum(parts)
    for index, cap in enumerate(caps):
        if left > 0 and parts[index] < cap:
            parts[index] += 1
            left -= 1
    return parts


def _level(total: int, caps: Sequence[int]) -> int:
    """Return the largest level at which the parts, cut at their caps, do not exceed the total."""
    left = total
    for num_cut, cap in enumerate(sorted(caps)):
        level = left // (len(caps) - num_cut)
        if cap > level:
            return level
        left -= cap
    return max(caps, default=0)
