"""Predictors of a device's training speed, from recent epochs and from contention."""

from __future__ import annotations

import collections
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable

from paceline.devices.contention.regression import SlowdownModel
from paceline.devices.contention.usage import ForeignUsage
from paceline.errors import ConfigError

RECENT_EPOCHS = 3
"""Epochs in a median: with three, one outlier changes nothing, and a change is seen in two."""


class Predictor(ABC):
    """Predicts the speed of a device's next epoch.

    A peer calls it on its event loop: `samples_per_second` before each epoch, `observe` after it, and once after the
    benchmark, before anything else.
    """

    @abstractmethod
    def samples_per_second(self) -> float:
        """Predict how many samples per second the device will train; above 0."""

    @abstractmethod
    def observe(self, num_samples: int, seconds: float) -> None:
        """Record the duration of an epoch, from its first minibatch to its last; ignored without samples."""


class RecentPredictor(Predictor):
    """Predicts the median of the last few epochs; needs no profile.

    Args:
        num_epochs: number of epochs in the median.
    """

    def __init__(self, *, num_epochs: int = RECENT_EPOCHS) -> None:
        self._recent: collections.deque[float] = collections.deque(maxlen=num_epochs)

    def samples_per_second(self) -> float:
        assert self._recent, "nothing was observed, not even a benchmark"
        return 1 / statistics.median(self._recent)

    def observe(self, num_samples: int, seconds: float) -> None:
        if num_samples > 0 and seconds > 0:
            self._recent.append(seconds / num_samples)


class ContentionPredictor(Predictor):
    """Predicts t0·RG(U) seconds per sample: the time alone, times the slowdown by others.

    t0 drifts, as when a device gets hot or its power supply fails: it is the median of what the last few epochs would
    have taken alone, by the same model.

    Args:
        seconds_per_sample: profiled t0.
        slowdown: profiled RG.
        usage: returns the current U; `ContentionMonitor.usage`.
        num_epochs: number of epochs in the median.
    """

    def __init__(
        self,
        seconds_per_sample: float,
        slowdown: SlowdownModel,
        usage: Callable[[], ForeignUsage],
        *,
        num_epochs: int = RECENT_EPOCHS,
    ) -> None:
        if not 0 < seconds_per_sample < math.inf:
            raise ConfigError(f"seconds_per_sample is {seconds_per_sample}; it must be above 0")
        self._alone = collections.deque([seconds_per_sample], maxlen=num_epochs)
        self._slowdown = slowdown
        self._usage = usage

    @property
    def seconds_per_sample_alone(self) -> float:
        """Current t0: time of a sample when nobody else uses the device."""
        return statistics.median(self._alone)

    def samples_per_second(self) -> float:
        return 1 / (self.seconds_per_sample_alone * self._slowdown.ratio(self._usage()))

    def observe(self, num_samples: int, seconds: float) -> None:
        if num_samples > 0 and seconds > 0:
            self._alone.append(seconds / num_samples / self._slowdown.ratio(self._usage()))
