"""Stop of a solver: after so many steps, which is the same on every machine, or after so many seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Limit:
    """Counts the steps of all loops of a solver, and ends them together.

    A step is one round of a loop: of local search, of annealing, of an ascent, of enumeration, or a node of a tree.
    """

    def __init__(
        self,
        *,
        max_steps: int | None = None,
        max_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steps_left = math.inf if max_steps is None else max_steps
        self._end_seconds = math.inf if max_seconds is None else clock() + max_seconds
        self._clock = clock

    @property
    def is_over(self) -> bool:
        """Whether the steps or the seconds are used up."""
        return self._steps_left <= 0 or self.seconds_left <= 0

    @property
    def steps_left(self) -> float:
        """Steps to go; infinite if they are not limited."""
        return max(0, self._steps_left)

    @property
    def seconds_left(self) -> float:
        """Seconds to go; infinite if they are not limited."""
        return self._end_seconds if math.isinf(self._end_seconds) else max(0.0, self._end_seconds - self._clock())

    def spend(self, num_steps: int = 1) -> bool:
        """Count steps; return whether they could be afforded."""
        is_affordable = not self.is_over
        self._steps_left -= num_steps
        return is_affordable
