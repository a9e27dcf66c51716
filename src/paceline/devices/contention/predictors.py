"""Predictors: how fast this device will train, from what it took lately and from what else it is busy with."""

from __future__ import annotations

import collections
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from paceline.devices.contention.regression import SlowdownModel
from paceline.devices.contention.usage import Usage
from paceline.errors import ConfigError

RECENT_EPOCHS = 3
"""That a speed is told from: with the median of three, one odd epoch changes nothing, and a change is seen in two."""


class Predictor(ABC):
    """Predicts the speed of a device's next epoch.

    A peer asks before each epoch and tells after it what that took, both on its event loop. What its benchmark took it
    tells before it first asks.
    """

    @abstractmethod
    def samples_per_second(self) -> float:
        """How many samples per second the device will train, as it looks now; above 0."""

    @abstractmethod
    def observe(self, num_samples: int, seconds: float) -> None:
        """Tell what an epoch took, from its first minibatch to its last; one without samples tells nothing."""


class RecentPredictor(Predictor):
    """Expects what the last few epochs took; needs no profile.

    Args:
        num_epochs: whose median is taken.
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
    """Expects t0·RG(U) seconds per sample: what it takes alone, times how much others slow it down.

    t0 drifts, as when a device gets hot or its power supply fails: it is the median of what the last few epochs would
    have taken alone, by the same model.

    Args:
        seconds_per_sample: t0, as it was profiled.
        slowdown: RG, as it was profiled.
        usage: tells U as it is now; `ContentionMonitor.usage`.
        num_epochs: whose median is taken.
    """

    def __init__(
        self,
        seconds_per_sample: float,
        slowdown: SlowdownModel,
        usage: Callable[[], Usage],
        *,
        num_epochs: int = RECENT_EPOCHS,
    ) -> None:
        profiled = _checked("seconds_per_sample", seconds_per_sample)
        self._alone = collections.deque([profiled], maxlen=num_epochs)
        self._slowdown = slowdown
        self._usage = usage

    @property
    def seconds_per_sample_alone(self) -> float:
        """What a sample takes when nobody else uses the device, as it looks now."""
        return statistics.median(self._alone)

    def samples_per_second(self) -> float:
        return 1 / (self.seconds_per_sample_alone * self._slowdown.ratio(self._usage()))

    def observe(self, num_samples: int, seconds: float) -> None:
        if num_samples > 0 and seconds > 0:
            self._alone.append(seconds / num_samples / self._slowdown.ratio(self._usage()))


def platform_throughput(seconds_per_sample: Iterable[float]) -> float:
    """Samples per second of executors that train together, by what a sample takes each: p = Σ 1/t."""
    return math.fsum(1 / _checked("seconds_per_sample", seconds) for seconds in seconds_per_sample)


def _checked(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} is {value}; it must be above 0")
    return value
