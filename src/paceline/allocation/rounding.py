"""Whole numbers out of times: how many of something fit, and how to split without a remainder."""

from __future__ import annotations

import math
from collections.abc import Sequence

TOLERANCE = 1e-9
"""A time limit counts as kept if it is overrun by no more than this part of it.

Whoever chooses a deadline as a multiple of what is to be done gets that multiple, although the sum of the parts may
differ from it in the last of sixteen digits.
"""


def units_within(limit_seconds: float, *, fixed_seconds: float, unit_seconds: float, most: int) -> int:
    """The largest n up to `most` with fixed + n · unit ≤ limit; 0 if there is none."""
    left_seconds = limit_seconds * (1 + TOLERANCE) - fixed_seconds
    if left_seconds <= 0:
        return 0
    return most if left_seconds >= most * unit_seconds else math.floor(left_seconds / unit_seconds)


def units_to_fill(limit_seconds: float, *, fixed_seconds: float, unit_seconds: float, most: int) -> int:
    """The least n with fixed + n · unit ≥ limit, or `most` if that is less."""
    left_seconds = limit_seconds * (1 - TOLERANCE) - fixed_seconds
    if left_seconds <= 0:
        return 0
    return most if left_seconds >= most * unit_seconds else math.ceil(left_seconds / unit_seconds)


def split_evenly(total: int, caps: Sequence[int]) -> list[int]:
    """Parts as equal as whole numbers and caps allow; the first ones get one more where it does not divide.

    They add up to the total, or to the caps if those are less.
    """
    level = _level(total, caps)
    parts = [min(cap, level) for cap in caps]
    left = total - sum(parts)
    for index, cap in enumerate(caps):
        if left > 0 and parts[index] < cap:
            parts[index] += 1
            left -= 1
    return parts


def _level(total: int, caps: Sequence[int]) -> int:
    """The most that each can have without the parts, cut at their caps, exceeding the total."""
    left = total
    for num_cut, cap in enumerate(sorted(caps)):
        level = left // (len(caps) - num_cut)
        if cap > level:
            return level
        left -= cap
    return max(caps, default=0)
