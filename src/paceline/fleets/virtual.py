"""A fleet on virtual time: the same orchestrator and learners, in one process, with modelled speeds and links.

Hours pass in seconds, and the same seed gives the same run, event by event.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch

from paceline.axon import loops
from paceline.axon.transports import CountedTransport
from paceline.axon.transports.memory import MemoryNetwork, MemoryTransport
from paceline.devices.energy import ModelledMeter
from paceline.errors import ConfigError, PacelineError
from paceline.fleets import virtual_loop
from paceline.fleets.base import C, Fleet, Launch
from paceline.fleets.devices import singles
from paceline.fleets.modelled import Condition, ModelledTrainer, VirtualDevice
from paceline.learning import datasets
from paceline.learning.shards import Array
from paceline.learning.tasks import Task
from paceline.learning.trainers import Trainer
from paceline.learning.training import LocalModel
from paceline.learning.vectors import Vectors
from paceline.topologies.parallel import (
    CannotKeepUp,
    Job,
    Learner,
    LearnerOptions,
    Surroundings,
    TurnedAway,
    hosted,
    in_place,
    reach,
)
from paceline.topologies.parallel.hosting import DEVICE

_GARBAGE_OBJECTS = 50_000  # made between two looks for garbage: with thousands of learners, each look takes long

T = TypeVar("T")
_MakeTrainer: TypeAlias = "Callable[[Task, Condition, int, ModelledMeter], Trainer]"  # of a task, with a seed


class VirtualFleet(Fleet):
    """Devices that are modelled, on a clock that jumps to the next event.

    Args:
        devices: as in a fleet file.
        is_time_only: leave the gradients out, for fleets of thousands.
    """

    def __init__(self, devices: Sequence[VirtualDevice], *, is_time_only: bool = False) -> None:
        self.devices = singles(devices)
        self._is_time_only = is_time_only

    def run(self, launch: Launch[C]) -> C:
        torch.manual_seed(launch.seed)  # dropout and the like draw from there
        num_threads, thresholds = torch.get_num_threads(), gc.get_threshold()
        torch.set_num_threads(1)  # faster for small models; and sums come out the same on any number of cores
        gc.set_threshold(_GARBAGE_OBJECTS, *thresholds[1:])
        try:
            orchestrator: C = virtual_loop.run(self._run(launch))
        finally:
            gc.set_threshold(*thresholds)
            torch.set_num_threads(num_threads)
        return orchestrator

    async def _run(self, launch: Launch[C]) -> C:
        least = launch.min_learners
        if len(self.devices) < least:
            raise ConfigError(f"the fleet has {len(self.devices)} devices; the job's min_learners is {least}")
        orchestrator = launch.orchestrator(
            Surroundings(
                aside=in_place,
                clock="virtual",
                is_evaluated=not self._is_time_only,
                chance=random.Random(launch.seed),
            )
        )
        network = MemoryNetwork()
        parts = self._split_data(launch.federated_job)
        models = _Models()

        def make_trainer(task: Task, condition: Condition, seed: int, meter: ModelledMeter) -> Trainer:
            model, initial = models.of(task)
            return ModelledTrainer(task, initial, None if self._is_time_only else model, condition, seed, meter)

        async with hosted(orchestrator, launch.max_model_bytes, transport=network.host(DEVICE)) as address:
            homes = [
                _Home(device, number, network, str(address), parts[number])
                for number, device in enumerate(self.devices)
            ]
            lives = [asyncio.ensure_future(self._live(home, make_trainer, launch)) for home in homes]
            try:
                await _unless_too_few(lives, launch.min_left, orchestrator.run())
                await orchestrator.farewell()
            finally:
                for life in lives:
                    life.cancel()
                await asyncio.gather(*lives, return_exceptions=True)
        return orchestrator

    def _split_data(self, job: Job | None) -> Sequence[tuple[Array, Array] | None]:
        """In a federated job each device has an equal part of the training data, drawn at random; else none."""
        if job is None:
            return [None] * len(self.devices)
        dataset = datasets.load(job.data)
        order = np.random.default_rng(job.seed).permutation(len(dataset.y_train))
        if len(order) < len(self.devices):
            raise ConfigError(f"{len(order)} samples of {dataset.name} are too few for {len(self.devices)} devices")
        return [(dataset.x_train[part], dataset.y_train[part]) for part in np.array_split(order, len(self.devices))]

    async def _live(self, home: _Home, make_trainer: _MakeTrainer, launch: Launch[Any]) -> None:
        """A device from when it joins until the run is over, or it dies for good."""
        device, seed = home.device, launch.seed * 1_000_003 + home.number
        await asyncio.sleep(device.joins_at_seconds)
        while True:
            transport = home.network.host(device.name, device.link(seed))
            learner = self._learner(home, transport, make_trainer, launch, seed)
            dies_in = _until(device.dies_at_seconds)
            try:
                await loops.within(dies_in, learner.run())
                return
            except CannotKeepUp:
                await learner.leave()
                return
            except TurnedAway:
                return
            except asyncio.TimeoutError:
                transport.line.cut()
            returns_in = _until(device.returns_at_seconds)
            if returns_in is None:
                return
            await asyncio.sleep(returns_in)

    @staticmethod
    def _learner(
        home: _Home, transport: MemoryTransport, make_trainer: _MakeTrainer, launch: Launch[Any], seed: int
    ) -> Learner:
        device = home.device
        condition = Condition(device, transport.line, random.Random(seed))
        meter = ModelledMeter(device.power, asyncio.get_running_loop().time)
        counted = CountedTransport(transport)
        return Learner(
            reach(home.url, transport=counted),
            device.name,
            lambda task: make_trainer(task, condition, seed, meter),
            emit=launch.emit,
            make_activity=lambda fetch: condition,
            options=LearnerOptions(
                max_shards=device.max_shards,
                price=device.price,
                own_data=home.own_data,
                meter=meter,
                traffic=counted,
            ),
        )


class _Models:
    """The model of each task, and its untrained parameters: one for all devices, since they train by turns."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[LocalModel, Vectors]] = {}

    def of(self, task: Task) -> tuple[LocalModel, Vectors]:
        made = self._made.get(task.name)
        if made is None:
            model = LocalModel(task, allowed=None)
            made = self._made[task.name] = (model, model.parameters())
        return made


async def _unless_too_few(lives: Sequence[asyncio.Future[None]], least: int, main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, unless a device fails by a mistake of its own, or fewer than `least` are left.

    The mistake is raised; with too few it would wait for ever, which is a `PacelineError`.
    """
    running = asyncio.ensure_future(main)
    num_left = len(lives)

    def stop(life: asyncio.Future[None]) -> None:
        nonlocal num_left
        num_left -= 1
        if not life.cancelled() and (life.exception() is not None or num_left < least):
            running.cancel()

    for life in lives:
        life.add_done_callback(stop)
    try:
        return await running
    except asyncio.CancelledError:
        for life in lives:
            if life.done():
                life.result()
        if num_left < least:
            raise PacelineError(
                f"{num_left} of {len(lives)} devices are left, and a round needs {least}: "
                "the others died, were turned away, or are too slow to train one shard by the deadline"
            ) from None
        raise


class _Home(NamedTuple):
    """Where a device lives, and where its orchestrator is."""

    device: VirtualDevice
    number: int
    network: MemoryNetwork
    url: str
    own_data: tuple[Array, Array] | None


def _until(at_seconds: float | None) -> float | None:
    """Seconds until a moment of virtual time; None if it is past, or was never set."""
    now = asyncio.get_running_loop().time()
    return at_seconds - now if at_seconds is not None and at_seconds > now else None
