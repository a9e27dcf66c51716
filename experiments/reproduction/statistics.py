"""Mean and 95 % interval over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paceline.extras import extra
from reproduction.rows import Row

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over seeds and its 95 % interval.

    Attributes:
        half_width: half the width of the 95 % interval of the mean, by Student's t; None if there is one value only.
        count: how many values there were.
    """

    mean: float
    half_width: float | None
    count: int

    @property
    def low(self) -> float:
        """Lower end of the interval; the mean if there is one value only."""
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        """Upper end of the interval; the mean if there is one value only."""
        return self.mean + (self.half_width or 0.0)


def estimate(values: Iterable[float]) -> Estimate:
    """Estimate the mean of independent values, one per seed, and its 95 % interval; needs at least one."""
    numbers = [float(value) for value in values]
    mean = statistics.fmean(numbers)
    if len(numbers) == 1:
        return Estimate(mean=mean, half_width=None, count=1)
    error = statistics.stdev(numbers) / math.sqrt(len(numbers))
    return Estimate(mean=mean, half_width=_t_quantile(len(numbers) - 1) * error, count=len(numbers))


def curve(rows: Sequence[Row], *, x: str, y: str) -> list[tuple[float, Estimate]]:
    """Estimate column `y` for each value of column `x`, in order; rows without a `y` do not count."""
    values: dict[float, list[float]] = {}
    for row in rows:
        if row[y] is not None:
            values.setdefault(row[x], []).append(row[y])
    return [(position, estimate(values[position])) for position in sorted(values)]


def _t_quantile(degrees: int) -> float:
    with extra("experiments"):
        from scipy.special import stdtrit  # takes long to load

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
