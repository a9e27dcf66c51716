"""Energy of training: processor time by a stated power model, and the emissions.

A device's joules are

    busy watts · processor seconds + idle watts · seconds + joules per byte · bytes sent and received.

Processor seconds are those of the training process alone, over all its threads; a modelled device counts the seconds
that it works. Where CodeCarbon is installed, it can measure the joules of the processor instead.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import msgspec

from paceline.checks import NotNegative, Spec, check_fields
from paceline.errors import ConfigError
from paceline.extras import extra

JOULES_PER_KWH = 3.6e6

GRAMS_CO2_PER_KWH = 243.0
"""Carbon intensity where none is given, CO2 equivalents. It is that of electricity in northern Italy by
electricitymap.org, as 'Flexible Parallel Learning in Edge Scenarios' states it. The carbon in that paper's Table I is
about 345 g for each kWh there."""

Clock: TypeAlias = Callable[[], float]
"""Clock in seconds; that of the learner's event loop."""


class PowerModel(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Power draw of a device; `ValueError` for a value out of range.

    The default is a Raspberry Pi 4 that is on anyway. That draws 2.7 W idle and 6.4 W with its four cores busy (J.
    Geerling, pidramble.com, "Power consumption benchmarks"), so 0.9 W for each of them. It is an assumption, not a
    measurement of the device at hand.

    Attributes:
        busy_watts: power per busy core, above idle.
        idle_watts: idle power, counted all the time; 0 if the device is on anyway.
        joules_per_byte: energy of a byte sent or received; 0 leaves the network out.
    """

    busy_watts: NotNegative = 0.9
    idle_watts: NotNegative = 0.0
    joules_per_byte: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

    def joules(self, cpu_seconds: float, seconds: float, num_bytes: int) -> float:
        """Compute the energy of so much processor time, time and traffic."""
        return self.busy_watts * cpu_seconds + self.idle_watts * seconds + self.joules_per_byte * num_bytes


class Consumption(NamedTuple):
    """Processor time and energy since the last reading."""

    cpu_seconds: float
    joules: float


class Meter(ABC):
    """Meter of a device's energy.

    Args:
        power: power model of the device.
        clock: clock of the learner's event loop.

    Attributes:
        source: origin of the joules: a power model, or the name of the measuring tool.
    """

    source: ClassVar[str] = "model"

    def __init__(self, power: PowerModel, clock: Clock) -> None:
        self._power = power
        self._clock = clock
        self._last_at = clock()
        self._last_busy = self.busy_seconds()

    @property
    def described(self) -> dict[str, Any]:
        """Source and power model, for events."""
        return {"source": self.source, **msgspec.structs.asdict(self._power)}

    @abstractmethod
    def busy_seconds(self) -> float:
        """Return the processor time so far."""

    def joules(self, cpu_seconds: float, seconds: float, num_bytes: int) -> float:
        """Return the energy since the last call, in which so much processor time, time and traffic passed."""
        return self._power.joules(cpu_seconds, seconds, num_bytes)

    def read(self, num_bytes: int = 0) -> Consumption:
        """Return the consumption since the last call; `num_bytes` were sent and received meanwhile."""
        now, busy = self._clock(), self.busy_seconds()
        cpu_seconds, seconds = busy - self._last_busy, now - self._last_at
        self._last_at, self._last_busy = now, busy
        return Consumption(cpu_seconds, self.joules(cpu_seconds, seconds, num_bytes))

    def close(self) -> None:
        """Release what it measures with."""


class ProcessMeter(Meter):
    """Meter of this process, by the system's count of its processor time."""

    def busy_seconds(self) -> float:
        return time.process_time()


class ModelledMeter(Meter):
    """Meter of a modelled device, which reports its work."""

    def __init__(self, power: PowerModel, clock: Clock) -> None:
        self._busy = 0.0
        super().__init__(power, clock)

    def work(self, seconds: float) -> None:
        """Record that the device worked for so long, on one core."""
        self._busy += seconds

    def busy_seconds(self) -> float:
        return self._busy


class Tracker(Protocol):
    """Part of the interface of CodeCarbon's trackers that is used."""

    def start_task(self) -> None:
        """Start to count."""

    def stop_task(self) -> Any:
        """Return the count, with `energy_consumed` in kWh; None if it could not count."""

    def stop(self) -> object:
        """Release what it measures with."""


def _new_tracker() -> Tracker:
    with extra("energy"):
        from codecarbon import OfflineEmissionsTracker
    tracker: Tracker = OfflineEmissionsTracker(
        country_iso_code="ITA",  # required, for emissions, which are not used
        tracking_mode="process",
        output_methods=[],
        allow_multiple_runs=True,  # its lock would take the signals that end a run
        log_level="warning",  # shows what it cannot measure
    )
    return tracker


class CodeCarbonMeter(ProcessMeter):
    """Meter of processor, memory and graphics card by CodeCarbon; bytes are as in the power model.

    Where the machine has counters (RAPL and the like), these cover all that runs on it. Where it has none, CodeCarbon
    estimates by its own power model. Raises `ConfigError` if it is not installed, or measures nothing; finding the
    hardware takes it a second or two.
    """

    source = "codecarbon"

    def __init__(self, power: PowerModel, clock: Clock, make_tracker: Callable[[], Tracker] = _new_tracker) -> None:
        self._tracker = make_tracker()
        self._tracker.start_task()
        self._count()  # raises now if it cannot measure
        super().__init__(power, clock)

    def joules(self, cpu_seconds: float, seconds: float, num_bytes: int) -> float:
        return self._count() + self._power.joules(0.0, 0.0, num_bytes)

    def _count(self) -> float:
        """Return the joules since the last count."""
        counted = self._tracker.stop_task()
        if counted is None:
            raise ConfigError("CodeCarbon cannot measure this machine's energy; its log says why")
        self._tracker.start_task()
        return float(counted.energy_consumed) * JOULES_PER_KWH

    def close(self) -> None:
        self._tracker.stop()


MakeMeter: TypeAlias = Callable[[Clock], Meter]
"""Function that makes the meter of a device, once there is a clock."""

METERS: dict[str, Callable[[PowerModel, Clock], Meter]] = {
    meter.source: meter for meter in (ProcessMeter, CodeCarbonMeter)
}
"""Meters of real devices, by the source of their joules."""


def kwh(joules: float) -> float:
    """Convert joules to kilowatt hours."""
    return joules / JOULES_PER_KWH


def grams_co2(joules: float, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> float:
    """Convert joules to grams of CO2 equivalents, by a carbon intensity."""
    return kwh(joules) * grams_per_kwh
