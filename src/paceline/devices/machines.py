"""Machines that roles run on: their trainers and engines, their background load, and their energy."""

from __future__ import annotations

import asyncio
import functools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch

from paceline.devices.background_load import BackgroundLoad, NoBackgroundLoad, StressorLoad
from paceline.devices.energy import MakeMeter, Meter, PowerModel, ProcessMeter
from paceline.devices.states import DeviceState
from paceline.devices.stressors import Fetch
from paceline.errors import ConfigError
from paceline.learning.accelerators import CPU, Accelerator
from paceline.learning.engines import Engine, ThreadEngine
from paceline.learning.local_model import LocalModel
from paceline.learning.memory import check_trainable
from paceline.learning.trainers import ThreadTrainer, Trainer
from paceline.learning.training_spec import TrainingSpec


class Machine(ABC):
    """Does the work of one device, real or modelled. One role uses it, on one event loop.

    Attributes:
        meter: meter of its energy.
        accelerator: what the work is really done on.
        accelerator_name: name that a device states; None where it is modelled.
    """

    meter: Meter
    accelerator: Accelerator = CPU
    accelerator_name: str | None = None

    @abstractmethod
    def trainer(self, spec: TrainingSpec) -> Trainer:
        """Make the trainer of a job's model; raises `ConfigError` for code that this device does not allow."""

    @abstractmethod
    def engine(self, operations_per_sample: float) -> Engine:
        """Make the engine that does work piece by piece.

        Args:
            operations_per_sample: operations to train the whole model on one sample, to which a modelled speed refers.
        """

    @abstractmethod
    def background_load(self, fetch: Fetch) -> BackgroundLoad:
        """Make the load that slows the machine down; `fetch` downloads dummy data."""

    def close(self) -> None:
        """Release what it measures with."""


_MOST_THREADS = 1024
_MAKE_METER = functools.partial(ProcessMeter, PowerModel())


class LiveMachine(Machine):
    """This machine, in real time; `ConfigError` for invalid settings.

    Args:
        slowdown: factor by which to slow training down.
        allowed: import paths or packages of code that it may load; None for any.
        states: states of other work, done by real stressors.
        are_states_known: whether it discloses the probabilities of the states.
        make_meter: makes the meter, once there is a clock.
        watch_points: see `ThreadTrainer`.
        threads: number of threads to train with; None to try out one, and as many as PyTorch would use.
        accelerator: what to compute on; on any but the CPU, numbers of threads are not tried out.
        max_memory_bytes: memory that it gives to a job's model; None for no bound.
    """

    def __init__(
        self,
        *,
        slowdown: float = 1.0,
        allowed: Sequence[str] | None = None,
        states: Sequence[DeviceState] = (),
        are_states_known: bool = True,
        make_meter: MakeMeter = _MAKE_METER,
        watch_points: Callable[[int, int], None] = lambda num_done, num_classes: None,
        threads: int | None = None,
        accelerator: Accelerator = CPU,
        max_memory_bytes: int | None = None,
    ) -> None:
        if not 1 <= slowdown < math.inf:
            raise ConfigError(f"slowdown is {slowdown:g}; it must be at least 1")
        self.slowdown = slowdown
        self.allowed = allowed
        self.accelerator_name = accelerator.name
        self.accelerator = accelerator
        self._max_memory_bytes = max_memory_bytes
        self._states = states
        self._are_states_known = are_states_known
        self._make_meter = make_meter
        self._watch_points = watch_points
        if threads is not None:
            if not 1 <= threads <= _MOST_THREADS:
                raise ConfigError(f"threads is {threads}; allowed: 1 to {_MOST_THREADS}")
            torch.set_num_threads(threads)
        most = torch.get_num_threads()
        self._thread_counts: Sequence[int] = (1, most) if threads is None and most > 1 else (most,)
        if threads is None and not accelerator.is_cpu:
            self._thread_counts = ()
        self.background_load(_fetch_nothing)  # raises now if something is wrong with the states

    @functools.cached_property
    def meter(self) -> Meter:  # type: ignore[override]  # made once there is a loop
        return self._make_meter(asyncio.get_running_loop().time)

    def trainer(self, spec: TrainingSpec) -> Trainer:
        if self._max_memory_bytes is not None:
            check_trainable(spec, self._max_memory_bytes)
        return ThreadTrainer(
            LocalModel(spec, self.allowed, accelerator=self.accelerator),
            self.slowdown,
            watch_points=self._watch_points,
            thread_counts=self._thread_counts,
        )

    def engine(self, operations_per_sample: float) -> Engine:
        if self.accelerator.compiles:
            raise ConfigError("--compile is for devices that train rounds or epochs by themselves: leave it out")
        return ThreadEngine(self.slowdown, self.accelerator)

    def background_load(self, fetch: Fetch) -> BackgroundLoad:
        if not self._states:
            return NoBackgroundLoad()
        return StressorLoad(self._states, fetch, random.Random(), are_known=self._are_states_known)

    def close(self) -> None:
        if "meter" in self.__dict__:
            self.meter.close()


async def _fetch_nothing() -> None:
    return
