"""The step functions of a cycle on arrays: local epochs by samples, and the most samples by local epochs.

Learner k has time for τ_k(n) local epochs over n samples. That falls with n, in steps, so that the samples with
lo ≤ τ_k ≤ hi are an interval. All of it is the arithmetic of `CycleProblem.local_epochs`, to the last bit: what is
found here holds there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from paceline.allocation.contract import MOST
from paceline.allocation.cycle import CycleProblem
from paceline.allocation.rounding import TOLERANCE

Counts = npt.NDArray[np.int64]
"""A whole number for each learner: samples, or whatever the shares are counted in, or local epochs."""

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """A fleet's seconds and limits, each an array with a value per learner but for the cycle.

    Attributes:
        c2: seconds per sample and local epoch, above 0.
        c1: seconds per sample.
        c0: seconds in all.
        cycle_seconds: T.
        low: the least samples of each, at least 1.
        high: the most samples of each, at least `low`.
    """

    c2: Seconds
    c1: Seconds
    c0: Seconds
    cycle_seconds: float
    low: Counts
    high: Counts

    @classmethod
    def of(cls, problem: CycleProblem) -> Steps:
        """The learners of a problem."""
        num_learners = len(problem.learners)
        most = problem.samples if problem.max_samples is None else problem.max_samples
        return cls(
            c2=np.array([learner.c2 for learner in problem.learners], dtype=np.float64),
            c1=np.array([learner.c1 for learner in problem.learners], dtype=np.float64),
            c0=np.array([learner.c0 for learner in problem.learners], dtype=np.float64),
            cycle_seconds=problem.cycle_seconds,
            low=np.full(num_learners, problem.min_samples, dtype=np.int64),
            high=np.full(num_learners, max(most, problem.min_samples), dtype=np.int64),
        )

    @property
    def left_seconds(self) -> Seconds:
        """What the model's way there and back leaves of the cycle; may be below 0."""
        left: Seconds = self.cycle_seconds * (1 + TOLERANCE) - self.c0
        return left

    def limited(self, high: Counts) -> Steps:
        """The same learners with other limits, at least `low`."""
        return replace(self, high=high)

    def take(self, learners: npt.NDArray[np.intp]) -> Steps:
        """The learners at these indices, which may repeat."""
        return Steps(
            c2=self.c2[learners],
            c1=self.c1[learners],
            c0=self.c0[learners],
            cycle_seconds=self.cycle_seconds,
            low=self.low[learners],
            high=self.high[learners],
        )

    def local_epochs(self, counts: Counts) -> Counts:
        """τ of each learner for so many samples, at least 1."""
        left = self.cycle_seconds * (1 + TOLERANCE) - (self.c0 + self.c1 * counts)
        unit = self.c2 * counts
        with np.errstate(over="ignore", divide="ignore"):
            fitting = np.floor(left / unit)
        fitting = np.where(left >= MOST * unit, MOST, fitting)
        return np.where(left <= 0, 0, fitting).astype(np.int64)

    def most_for(self, local_epochs: int | Counts) -> Counts:
        """The most samples, up to `high`, that leave time for so many local epochs; low − 1 where not even `low` do."""
        wanted = np.broadcast_to(np.asarray(local_epochs, dtype=np.int64), self.low.shape)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            guess = self.left_seconds / (self.c1 + self.c2 * wanted)
        # nan: no seconds left for no local epochs, where c1 is 0; what follows puts all of the last digits right
        counts = np.clip(np.nan_to_num(guess), self.low - 1, self.high).astype(np.int64)
        counts += self._allows(counts + 1, wanted)
        counts -= ~self._allows(counts, wanted)
        wrong = np.flatnonzero(self._allows(counts + 1, wanted) | ~self._allows(counts, wanted))
        if wrong.size:
            counts[wrong] = self.take(wrong)._bisect(wanted[wrong])
        return counts

    def _allows(self, counts: Counts, wanted: Counts) -> npt.NDArray[np.bool_]:
        """Whether there is time for so many local epochs, and the limits are kept; low − 1 always counts as kept."""
        enough = self.local_epochs(np.maximum(counts, self.low)) >= wanted
        return (counts < self.low) | (enough & (counts <= self.high))

    def _bisect(self, wanted: Counts) -> Counts:
        fits, fails = self.low - 1, self.high + 1
        while np.any(fails - fits > 1):
            middle = fits + (fails - fits) // 2
            allowed = self._allows(middle, wanted)
            fits, fails = np.where(allowed, middle, fits), np.where(allowed, fails, middle)
        return fits


def total_of(counts: Counts) -> int:
    """The exact sum; 64 bits are too few for a hundred thousand of the largest."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
