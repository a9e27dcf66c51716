"""Step functions of a cycle on arrays: local epochs by samples, and the most samples by local epochs.

Learner k has time for τ_k(n) local epochs over n samples. That falls with n, in steps, so that the samples with
lo ≤ τ_k ≤ hi are an interval. All of it is the arithmetic of `CycleProblem.local_epochs`, to the last bit: what is
found here holds there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from paceline.allocation.cycle_problem import CycleProblem
from paceline.allocation.rounding import TOLERANCE
from paceline.checks import MOST

Counts = npt.NDArray[np.int64]
"""A whole number for each learner: samples or other units, or local epochs."""

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Times and limits of learners, as arrays with a value per learner, except for the cycle.

    Attributes:
        c2: seconds per sample and local epoch, above 0.
        c1: seconds per sample.
        c0: seconds per cycle.
        cycle_seconds: duration of the cycle, T.
        low: minimum of samples, at least 1.
        high: maximum of samples, at least `low`.
    """

    c2: Seconds
    c1: Seconds
    c0: Seconds
    cycle_seconds: float
    low: Counts
    high: Counts

    @classmethod
    def of(cls, problem: CycleProblem) -> Steps:
        """Convert the learners of a problem."""
        num_learners = len(problem.learners)
        most = problem.samples if problem.max_samples is None else problem.max_samples
        own = np.array([problem.most_samples(learner) for learner in problem.learners], dtype=np.int64)
        seconds = np.array([(learner.c2, learner.c1, learner.c0) for learner in problem.learners], dtype=np.float64)
        return cls(
            c2=seconds[:, 0].copy(),
            c1=seconds[:, 1].copy(),
            c0=seconds[:, 2].copy(),
            cycle_seconds=problem.cycle_seconds,
            low=np.full(num_learners, problem.min_samples, dtype=np.int64),
            high=np.maximum(np.minimum(own, most), problem.min_samples),
        )

    @property
    def left_seconds(self) -> Seconds:
        """Time of the cycle left after both transfers of the model; may be below 0."""
        left: Seconds = self.cycle_seconds * (1 + TOLERANCE) - self.c0
        return left

    def limited(self, high: Counts) -> Steps:
        """Replace the maximum, which must be at least `low`."""
        return replace(self, high=high)

    def take(self, learners: npt.NDArray[np.intp]) -> Steps:
        """Select the learners at these indices, which may repeat."""
        arrays = ("c2", "c1", "c0", "low", "high")
        return replace(self, **{name: getattr(self, name)[learners] for name in arrays})

    def local_epochs(self, counts: Counts) -> Counts:
        """Compute τ of each learner for so many samples, at least 1."""
        left = self.cycle_seconds * (1 + TOLERANCE) - (self.c0 + self.c1 * counts)
        unit = self.c2 * counts
        with np.errstate(over="ignore", divide="ignore"):
            fitting = np.floor(left / unit)
        fitting = np.where(left >= MOST * unit, MOST, fitting)
        return np.where(left <= 0, 0, fitting).astype(np.int64)

    def most_for(self, local_epochs: int | Counts) -> Counts:
        """Find the most samples, up to `high`, with time for so many local epochs; low − 1 if `low` is too many."""
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
        """Check that there is time for so many local epochs within the limits; low − 1 always passes."""
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
    """Sum exactly; 64 bits are too few for a hundred thousand of the largest."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
