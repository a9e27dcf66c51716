"""A fleet on virtual time: the same orchestrator and learners, in one process, with modelled speeds and links.

Hours pass in seconds, and the same seed gives the same run, event by event.
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch

from paceline.axon import loops
from paceline.axon.transports.links import Link
from paceline.axon.transports.memory import MemoryNetwork
from paceline.errors import ConfigError, PacelineError
from paceline.fleets import virtual_loop
from paceline.fleets.base import Fleet, Launch, Outcome
from paceline.fleets.devices import EmulatedDevice
from paceline.learning import datasets
from paceline.learning.shards import Array, Shard
from paceline.learning.tasks import Task
from paceline.learning.trainers import Trained, Trainer
from paceline.learning.training import LocalModel
from paceline.learning.vectors import Layout, Vectors
from paceline.topologies.parallel import (
    CannotKeepUp,
    Job,
    Learner,
    LearnerOptions,
    Orchestrator,
    Surroundings,
    hosted,
    in_place,
    reach,
)
from paceline.topologies.parallel.hosting import DEVICE

_GARBAGE_OBJECTS = 50_000  # made between two looks for garbage: with thousands of learners, each look takes long

T = TypeVar("T")
_MakeTrainer: TypeAlias = "Callable[[Task, VirtualDevice, int], Trainer]"  # of a task, for a device, with a seed


class VirtualDevice(EmulatedDevice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device that is modelled, or `count` alike.

    Attributes:
        samples_per_second: that it trains in one iteration of the job's model.
        cpu_share: of its processor that training gets.
        speed_noise: how far its speed varies from round to round at random, as a ratio: 0.2 is ± 20 %.
        link_noise: the same for each transfer.
        joins_at_seconds: when it joins.
        dies_at_seconds: when it vanishes without a word.
        returns_at_seconds: when it joins again under its name.
    """

    samples_per_second: float
    speed_noise: float = 0.0
    link_noise: float = 0.0
    loss: float = 0.0
    joins_at_seconds: float = 0.0
    dies_at_seconds: float | None = None
    returns_at_seconds: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.samples_per_second > 0:
            raise ValueError(f"samples_per_second is {self.samples_per_second}; it must be above 0")
        if not self.samples_per_second < math.inf:
            raise ValueError(f"samples_per_second is {self.samples_per_second}; it must be finite")
        if not 0 <= self.joins_at_seconds < math.inf:
            raise ValueError(f"joins_at_seconds is {self.joins_at_seconds}; it must be at least 0")
        if self.dies_at_seconds is not None and not self.dies_at_seconds >= 0:
            raise ValueError(f"dies_at_seconds is {self.dies_at_seconds}; it must be at least 0")
        for name in ("speed_noise", "link_noise", "loss"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be from 0 to below 1")
        if self.returns_at_seconds is not None and not self.returns_at_seconds > (self.dies_at_seconds or math.inf):
            raise ValueError("returns_at_seconds needs a dies_at_seconds before it")

    def link(self, seed: int) -> Link:
        """Its link to the orchestrator."""
        return Link.in_mbit(
            down_mbit=self.down_mbit,
            up_mbit=self.up_mbit,
            latency_ms=self.latency_ms,
            loss=self.loss,
            jitter=self.link_noise,
            seed=seed,
        )


class ModelledTrainer(Trainer):
    """Takes the time that a device would take, on the loop's clock; the training itself is real.

    Args:
        initial: untrained parameters.
        model: may be shared by many; None to take the time only, and return the parameters as they came.
        seed: of the noise.
    """

    def __init__(
        self, task: Task, initial: Vectors, model: LocalModel | None, device: VirtualDevice, seed: int
    ) -> None:
        self._task = task
        self._initial = initial
        self._model = model
        self._samples_per_second = device.samples_per_second * device.cpu_share
        self._noise = device.speed_noise
        self._chance = random.Random(seed)

    def initial_parameters(self) -> Vectors:  # noqa: D102
        return self._initial

    async def train(  # noqa: D102
        self,
        parameters: Vectors,
        shards: Sequence[Shard],
        *,
        iterations: int = 1,
        until: float = math.inf,
        seed: int = 0,
    ) -> Trained:
        per_second = self._samples_per_second * (1 + self._noise * (2 * self._chance.random() - 1))
        most = (until - asyncio.get_running_loop().time()) * per_second  # samples that there is time for
        num_wanted = iterations * sum(shard.num_samples for shard in shards)
        if self._model is None:
            batch = self._task.batch_size
            num_samples = num_wanted if most >= num_wanted else int(max(most, 0) // batch) * batch
        else:
            minibatches = self._model.minibatches(self._model.layout.unpack(parameters), shards, seed, iterations)
            num_samples = 0
            while num_samples < num_wanted and min(num_samples + self._task.batch_size, num_wanted) <= most:
                num_samples += next(minibatches)
            parameters = self._model.parameters()
        seconds = num_samples / per_second
        await asyncio.sleep(seconds)
        return Trained(parameters, num_samples, seconds, num_samples < num_wanted)


class VirtualFleet(Fleet):
    """Devices that are modelled, on a clock that jumps to the next event.

    Args:
        devices: as in a fleet file.
        is_time_only: leave the gradients out, for fleets of thousands.
    """

    def __init__(self, devices: Sequence[VirtualDevice], *, is_time_only: bool = False) -> None:
        self.devices = [single for device in devices for single in device.each()]
        self._is_time_only = is_time_only

    def run(self, launch: Launch) -> Outcome:  # noqa: D102
        torch.manual_seed(launch.plan.job.seed)  # dropout and the like draw from there
        num_threads, thresholds = torch.get_num_threads(), gc.get_threshold()
        torch.set_num_threads(1)  # faster for small models; and sums come out the same on any number of cores
        gc.set_threshold(_GARBAGE_OBJECTS, *thresholds[1:])
        try:
            outcome: Outcome = virtual_loop.run(self._run(launch))
        finally:
            gc.set_threshold(*thresholds)
            torch.set_num_threads(num_threads)
        return outcome

    async def _run(self, launch: Launch) -> Outcome:
        least = launch.plan.job.min_learners
        if len(self.devices) < least:
            raise ConfigError(f"the fleet has {len(self.devices)} devices; the job's min_learners is {least}")
        around = Surroundings(
            emit=launch.emit, save=launch.save, aside=in_place, clock="virtual", started_at=launch.started_at
        )
        plan = replace(launch.plan, evaluate=None) if self._is_time_only else launch.plan
        orchestrator = Orchestrator(plan, launch.state, around, launch.first_round)
        network = MemoryNetwork()
        initial = Layout(launch.state).pack(launch.state)
        model = None if self._is_time_only else LocalModel(launch.plan.task, allowed=None)
        parts = self._split_data(launch.plan.job)

        def make_trainer(task: Task, device: VirtualDevice, seed: int) -> Trainer:
            return ModelledTrainer(task, initial, model, device, seed)

        async with hosted(orchestrator, launch.plan.terms.model_bytes, transport=network.host(DEVICE)) as address:
            homes = [
                _Home(device, number, network, str(address), parts[number])
                for number, device in enumerate(self.devices)
            ]
            lives = [asyncio.ensure_future(self._live(home, make_trainer, launch)) for home in homes]
            try:
                ended = await _unless_too_few(lives, least, orchestrator.run())
                await orchestrator.farewell()
            finally:
                for life in lives:
                    life.cancel()
                await asyncio.gather(*lives, return_exceptions=True)
        return Outcome(ended, orchestrator.state)

    def _split_data(self, job: Job) -> Sequence[tuple[Array, Array] | None]:
        """In a federated job each device has an equal part of the training data, drawn at random; else none."""
        if job.data.placement == "served":
            return [None] * len(self.devices)
        dataset = datasets.load(job.data)
        order = np.random.default_rng(job.seed).permutation(len(dataset.y_train))
        if len(order) < len(self.devices):
            raise ConfigError(f"{len(order)} samples of {dataset.name} are too few for {len(self.devices)} devices")
        return [(dataset.x_train[part], dataset.y_train[part]) for part in np.array_split(order, len(self.devices))]

    async def _live(self, home: _Home, make_trainer: _MakeTrainer, launch: Launch) -> None:
        """A device from when it joins until the run is over, or it dies for good."""
        device, seed = home.device, launch.plan.job.seed * 1_000_003 + home.number
        await asyncio.sleep(device.joins_at_seconds)
        while True:
            transport = home.network.host(device.name, device.link(seed))
            learner = Learner(
                reach(home.url, transport=transport),
                device.name,
                lambda task: make_trainer(task, device, seed),
                emit=launch.emit,
                options=LearnerOptions(max_shards=device.max_shards, own_data=home.own_data),
            )
            dies_in = _until(device.dies_at_seconds)
            try:
                await loops.within(dies_in, learner.run())
                return
            except CannotKeepUp:
                await learner.leave()
                return
            except asyncio.TimeoutError:
                transport.cut()
            returns_in = _until(device.returns_at_seconds)
            if returns_in is None:
                return
            await asyncio.sleep(returns_in)


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
                "the others died, or are too slow to train one shard by the deadline"
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
