"""What training takes in energy: processor time by a power model that is stated, and what that emits.

A device's joules are

    busy watts · processor seconds + idle watts · seconds + joules per byte · bytes sent and received.

Processor seconds are those of the training process alone, over all its threads; a modelled device counts the seconds
that it works. Where CodeCarbon is installed, it can tell the joules of the processor instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import msgspec
import psutil

from paceline.checks import NotNegative, check_fields
from paceline.errors import ConfigError

JOULES_PER_KWH = 3.6e6

GRAMS_CO2_PER_KWH = 243.0
"""Carbon intensity where none is given, CO2 equivalents. It is that of electricity in northern Italy by
electricitymap.org, as 'Flexible Parallel Learning in Edge Scenarios' states it. The carbon in that paper's Table I is
about 345 g for each kWh there."""

Clock: TypeAlias = Callable[[], float]
"""Tells the time in seconds; that of the loop that a learner runs on."""


class PowerModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a device draws; `ValueError` for what cannot be.

    By default it is a Raspberry Pi 4 that is on anyway. That draws 2.7 W idle and 6.4 W with its four cores busy (J.
    Geerling, pidramble.com, "Power consumption benchmarks"), so 0.9 W for each of them. It is an assumption: nobody
    has measured the device at hand.

    Attributes:
        busy_watts: per core that works, above what it draws idle.
        idle_watts: all the time that is counted; 0 if it is on anyway.
        joules_per_byte: of what it sends and receives; 0 leaves the network out.
    """

    busy_watts: NotNegative = 0.9
    idle_watts: NotNegative = 0.0
    joules_per_byte: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

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
        clock: that of the loop that the learner runs on.

    Attributes:
        source: where its joules come from: a power model, or the name of who measures.
    """

    source: ClassVar[str] = "model"

    def __init__(self, power: PowerModel, clock: Clock) -> None:
        self._power = power
        self._clock = clock
        self._last_at = clock()
        self._last_busy = self.busy_seconds()

    @property
    def described(self) -> dict[str, Any]:
        """Its source, and the power model, for events."""
        return {"source": self.source, **msgspec.structs.asdict(self._power)}

    @abstractmethod
    def busy_seconds(self) -> float:
        """Processor time so far."""

    def joules(self, cpu_seconds: float, seconds: float, num_bytes: int) -> float:
        """Since the last call, in which so much processor time, time and traffic passed."""
        return self._power.joules(cpu_seconds, seconds, num_bytes)

    def read(self, num_bytes: int = 0) -> Consumption:
        """What was used up since the last call; `num_bytes` were sent and received meanwhile."""
        now, busy = self._clock(), self.busy_seconds()
        cpu_seconds, seconds = busy - self._last_busy, now - self._last_at
        self._last_at, self._last_busy = now, busy
        return Consumption(cpu_seconds, self.joules(cpu_seconds, seconds, num_bytes))

    def close(self) -> None:
        """Let go of what it measures with."""


class ProcessMeter(Meter):
    """Of this process, by what the system counts of its processor time."""

    def __init__(self, power: PowerModel, clock: Clock) -> None:
        self._process = psutil.Process()
        super().__init__(power, clock)

    def busy_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


class ModelledMeter(Meter):
    """Of a modelled device: it works when it is told to."""

    def __init__(self, power: PowerModel, clock: Clock) -> None:
        self._busy = 0.0
        super().__init__(power, clock)

    def work(self, seconds: float) -> None:
        """The device worked for so long, on one core."""
        self._busy += seconds

    def busy_seconds(self) -> float:
        return self._busy


class Tracker(Protocol):
    """What is used of a tracker of CodeCarbon."""

    def start_task(self) -> None:
        """Count from now on."""

    def stop_task(self) -> Any:
        """What was counted since, with `energy_consumed` in kWh; None if it could not count."""

    def stop(self) -> object:
        """Let go of what it measures with."""


def _new_tracker() -> Tracker:
    try:
        from codecarbon import OfflineEmissionsTracker
    except ImportError:
        raise ConfigError('CodeCarbon is not installed; run pip install "paceline[energy]"') from None
    tracker: Tracker = OfflineEmissionsTracker(
        country_iso_code="ITA",  # it wants one, for emissions, which are not asked of it
        tracking_mode="process",
        output_methods=[],
        allow_multiple_runs=True,  # its lock would take the signals that end a run
        log_level="warning",  # it says what it cannot measure
    )
    return tracker


class CodeCarbonMeter(ProcessMeter):
    """Of processor, memory and graphics card as CodeCarbon tells it; bytes are as in the power model.

    Where the machine has counters (RAPL and the like), these are of all that runs on it. Where it has none, CodeCarbon
    estimates by a power model of its own. Raises `ConfigError` if it is not installed, or tells nothing; to find the
    hardware takes it a second or two.
    """

    source = "codecarbon"

    def __init__(self, power: PowerModel, clock: Clock, make_tracker: Callable[[], Tracker] = _new_tracker) -> None:
        self._tracker = make_tracker()
        self._tracker.start_task()
        self._count()  # tells now if nothing can be had of it
        super().__init__(power, clock)

    def joules(self, cpu_seconds: float, seconds: float, num_bytes: int) -> float:
        return self._count() + self._power.joules(0.0, 0.0, num_bytes)

    def _count(self) -> float:
        """Joules since the last count."""
        counted = self._tracker.stop_task()
        if counted is None:
            raise ConfigError("CodeCarbon cannot tell this machine's energy; its log says why")
        self._tracker.start_task()
        return float(counted.energy_consumed) * JOULES_PER_KWH

    def close(self) -> None:
        self._tracker.stop()


MakeMeter: TypeAlias = Callable[[Clock], Meter]
"""Makes the meter of a device, once there is a clock."""

METERS: dict[str, Callable[[PowerModel, Clock], Meter]] = {
    meter.source: meter for meter in (ProcessMeter, CodeCarbonMeter)
}
"""Where the joules of a real device may come from."""


def kwh(joules: float) -> float:
    """Joules in kilowatt hours."""
    return joules / JOULES_PER_KWH


def grams_co2(joules: float, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> float:
    """What it emits to make so many joules, in grams of CO2 equivalents, by a carbon intensity."""
    return kwh(joules) * grams_per_kwh
