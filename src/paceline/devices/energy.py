"""What training takes in energy: processor time by a power model that is stated, and what that emits.

A device's joules are

    busy watts · processor seconds + idle watts · seconds + joules per byte · bytes sent and received.

Processor seconds are those of the training process alone, over all its threads; a modelled device counts the seconds
that it works.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import psutil

JOULES_PER_KWH = 3.6e6


class PowerModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a device draws; `ValueError` for what cannot be.

    Attributes:
        busy_watts: per core that works, above what it draws idle.
        idle_watts: all the time that it takes part; 0 if it is on anyway.
        joules_per_byte: of what it sends and receives; 0 leaves the network out.
    """

    busy_watts: float = 5.0
    idle_watts: float = 0.0
    joules_per_byte: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0")

    def joules(self, cpu_seconds: float, seconds: float, num_bytes: int) -> float:
        """Of so much processor time in so much time, with so many bytes sent and received."""
        return self.busy_watts * cpu_seconds + self.idle_watts * seconds + self.joules_per_byte * num_bytes


class Consumption(NamedTuple):
    """What was used up since the last look."""

    cpu_seconds: float
    joules: float


class Meter(ABC):
    """Tells what a device uses up.

    Args:
        power: of the device.
        clock: tells the time in seconds; that of the loop that the learner runs on.
    """

    def __init__(self, power: PowerModel, clock: Callable[[], float]) -> None:
        self._power = power
        self._clock = clock
        self._last_at = clock()
        self._last_busy = 0.0

    @abstractmethod
    def busy_seconds(self) -> float:
        """Processor time so far."""

    def read(self, num_bytes: int = 0) -> Consumption:
        """What was used up since the last call; `num_bytes` were sent and received meanwhile."""
        now, busy = self._clock(), self.busy_seconds()
        cpu_seconds, seconds = busy - self._last_busy, now - self._last_at
        self._last_at, self._last_busy = now, busy
        return Consumption(cpu_seconds, self._power.joules(cpu_seconds, seconds, num_bytes))


class ProcessMeter(Meter):
    """Of this process, by what the system counts of its processor time."""

    def __init__(self, power: PowerModel, clock: Callable[[], float]) -> None:
        self._process = psutil.Process()
        super().__init__(power, clock)
        self._last_busy = self.busy_seconds()

    def busy_seconds(self) -> float:  # noqa: D102
        times = self._process.cpu_times()
        return float(times.user + times.system)


class ModelledMeter(Meter):
    """Of a modelled device: it works when it is told to."""

    def __init__(self, power: PowerModel, clock: Callable[[], float]) -> None:
        self._busy = 0.0
        super().__init__(power, clock)

    def work(self, seconds: float) -> None:
        """The device worked for so long, on one core."""
        self._busy += seconds

    def busy_seconds(self) -> float:  # noqa: D102
        return self._busy
