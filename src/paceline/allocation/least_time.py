"""The least time that works, where the one that was given is too short."""

from __future__ import annotations

import math
from collections.abc import Callable

_HEADROOM = 1.1  # for what a message suggests: no round goes exactly as its estimate
_PRECISION = 1e-6  # as a ratio


def least_time(works: Callable[[float], bool], too_short: float, most: float = math.inf) -> float:
    """Return the least time that works, which is at least `too_short`; infinite if `most` does not."""
    fails = enough = too_short
    while not works(enough):
        if enough >= most:
            return math.inf
        fails, enough = enough, min(2 * enough, most)
    while enough - fails > _PRECISION * enough:
        middle = (fails + enough) / 2
        if works(middle):
            enough = middle
        else:
            fails = middle
    return enough


def suggest_seconds(least_seconds: float) -> str:
    """Write a time that works, for a message: rounded up to two digits, with some headroom."""
    wanted = least_seconds * _HEADROOM
    digit = 10.0 ** (math.floor(math.log10(wanted)) - 1)
    return f"{math.ceil(wanted / digit) * digit:.9g} s"
