"""Devices that are modelled: their speed, their link, what they are busy with, and a trainer that takes their time."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, TypeVar

import numpy as np
import torch
from msgspec import Meta

from paceline.axon.transports.links import Link, LinkInUse
from paceline.checks import NotNegative, Positive, RatioBelowOne
from paceline.devices.background_load import BackgroundLoad, NoBackgroundLoad
from paceline.devices.energy import ModelledMeter, PowerModel
from paceline.devices.machines import Machine
from paceline.devices.states import DeviceState, draw_state
from paceline.devices.stressors import Fetch
from paceline.errors import ConfigError
from paceline.fleets.devices import EmulatedDevice
from paceline.learning.accelerators import CPU, Accelerator
from paceline.learning.aggregated_points import PointsSpec, remembered
from paceline.learning.averaging import State
from paceline.learning.engines import Engine
from paceline.learning.local_model import LocalModel
from paceline.learning.shards import Shard
from paceline.learning.trainers import DEFAULT_OPTIONS, Aggregated, KeptTraining, Losses, Trained, Trainer, TrainOptions
from paceline.learning.training_spec import TrainingSpec
from paceline.learning.vectors import Vectors

T = TypeVar("T")


class VirtualDevice(EmulatedDevice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device that is modelled, or `count` alike.

    Attributes:
        samples_per_second: speed of one local epoch of the job's model; by the name of the job, if there are several.
        aggregates_per_second: samples that it turns into aggregated points, where peers do that.
        cpu_share: part of its processor that training gets.
        speed_noise: how far its speed varies from round to round at random, as a ratio: 0.2 is ± 20 %.
        link_noise: the same for each transfer.
        joins_at_seconds: when it joins.
        dies_at_seconds: when it vanishes without a word.
        returns_at_seconds: when it joins again under its name.
        leaves_at_seconds: when it says goodbye.
        is_server: whether it is what the host runs on; all others are members.
        states: as for every device; it measures itself idle, unless the policy asks for all of them.
        skips: part of the work it reports that it does not do; to try out audits.
        poison: what it sends instead of what it trained, to try out what jobs withstand: ``scaled``: its change times
            `poison_factor`; ``zeros``: parameters that are all 0; ``stale``: the first parameters that it was given;
            ``colluding``: with all others of this kind, the model's last step backwards, as long as its own change
            times `poison_factor`.
        poison_factor: -1 flips the sign of a ``scaled`` change, -10 makes it large as well; 1 is honest.
    """

    samples_per_second: Positive | dict[str, Positive]
    aggregates_per_second: Annotated[float, Meta(gt=0)] = math.inf
    speed_noise: RatioBelowOne = 0.0
    link_noise: RatioBelowOne = 0.0
    packet_loss: RatioBelowOne = 0.0
    joins_at_seconds: NotNegative = 0.0
    dies_at_seconds: Annotated[float, Meta(ge=0)] | None = None
    returns_at_seconds: float | None = None
    leaves_at_seconds: Annotated[float, Meta(ge=0)] | None = None
    is_server: bool = False
    skips: RatioBelowOne = 0.0
    poison: Literal["scaled", "zeros", "stale", "colluding"] = "scaled"
    poison_factor: Annotated[float, Meta(ge=-1e6, le=1e6)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.returns_at_seconds is not None and not self.returns_at_seconds > (self.dies_at_seconds or math.inf):
            raise ValueError("returns_at_seconds needs a dies_at_seconds before it")

    def speed(self, job: str) -> float:
        """Samples per second of one pass of a job's model; raises `ConfigError` if nothing is said of that job."""
        if not isinstance(self.samples_per_second, dict):
            return self.samples_per_second
        if job not in self.samples_per_second:
            known = ", ".join(map(repr, self.samples_per_second))
            raise ConfigError(f"device {self.name}: samples_per_second has no speed for job {job!r}, only for {known}")
        return self.samples_per_second[job]

    def is_there(self, now: float) -> bool:
        """Return whether the device takes part at a moment, as far as is planned."""
        dies_at, returns_at = self.dies_at_seconds or math.inf, self.returns_at_seconds or math.inf
        return self.joins_at_seconds <= now and (now < dies_at or now > returns_at)

    def link(self, seed: int) -> Link:
        """Make its link to the others."""
        return Link.in_mbit(
            down_mbit=self.down_mbit,
            up_mbit=self.up_mbit,
            latency_ms=self.latency_ms,
            loss=self.packet_loss,
            jitter=self.link_noise,
            seed=seed,
        )


_IDLE = DeviceState(name="idle", probability=1.0)


class ModelledLoad(BackgroundLoad):
    """Background load of a modelled device: what it leaves of its speed and of its link.

    Args:
        link: its link.
        chance: generator that draws the states.

    Attributes:
        speed: part of its speed that is left.
    """

    def __init__(self, device: VirtualDevice, link: LinkInUse, chance: random.Random) -> None:
        self.device = device
        self.speed = 1.0
        self._link = link
        self._chance = chance
        self._known = {state.name: state for state in device.states or (_IDLE,)}
        self.states = tuple(self._known)
        self.state = self.states[0]
        are_known = device.are_states_known
        self.probabilities = tuple(state.probability for state in self._known.values()) if are_known else None

    def pace(self, per_second: float, chance: random.Random) -> float:
        """What the device can do per second at the moment, of what it could with all of its processor."""
        noise = self.device.speed_noise * (2 * chance.random() - 1)
        return per_second * self.device.cpu_share * self.speed * (1 + noise)

    async def work(self, seconds: float, meter: ModelledMeter) -> None:
        """Take so much time, in which the processor works on this as far as it is not busy with something else."""
        meter.work(seconds * self.device.cpu_share * self.speed)
        await asyncio.sleep(seconds)

    def begin_round(self) -> None:
        if self.device.states:
            self._be_in(draw_state(self.device.states, self._chance))

    @contextlib.contextmanager
    def held_in(self, state: str) -> Iterator[None]:
        before, speed, bandwidth = self.state, self.speed, self._link.bandwidth
        self._be_in(self._known[state])
        try:
            yield
        finally:
            self.state, self.speed, self._link.bandwidth = before, speed, bandwidth

    def _be_in(self, state: DeviceState) -> None:
        self.state, self.speed, self._link.bandwidth = state.name, state.speed, state.bandwidth


# Samples whose loss is found in the time that one is trained. Measured on one core, minibatches of 64: 3.3 for two-nn,
# 2.6 for lenet-5, 3.5 for alexnet, 1.9 for squeezenet and 2.7 for mobilenet-v2.
_FORWARD_PER_TRAINED = 3


class ModelledTrainer(Trainer):
    """Takes the time that a device would take, on the loop's clock; the training itself is real.

    But not that of a benchmark, which starts from the initial parameters: nobody asks what became of those.

    Args:
        initial: untrained parameters.
        load: background load of the device, which lowers its speed.
        model: may be shared by many; None to take the time only, and return the parameters as they came.
        seed: seed of the noise.
        meter: counts how long the processor worked.
        has_base: see `Trainer`.
    """

    def __init__(
        self,
        spec: TrainingSpec,
        initial: Vectors,
        model: LocalModel | None,
        load: ModelledLoad,
        seed: int,
        meter: ModelledMeter,
        *,
        has_base: bool = True,
    ) -> None:
        self.has_base = has_base
        self._spec = spec
        self._load = load
        self._initial = initial
        self._model = model
        self._device = load.device
        self._chance = random.Random(seed)
        self._meter = meter
        self._kept = KeptTraining(initial)
        self._given: list[Vectors] = []  # the first parameters, and the last ones but one, to those who lie

    def initial_parameters(self) -> Vectors:
        return self._initial

    def load_base(self, state: State) -> None:
        if self._model is not None:
            self._kept.load_base(self._model, state)

    def memory(self) -> State:
        return {} if self._model is None else self._kept.memory(self._model)

    def restore(self, memory: State) -> None:
        if self._model is not None:
            self._kept.restore(self._model, memory)

    async def train(
        self, parameters: Vectors, shards: Sequence[Shard], options: TrainOptions = DEFAULT_OPTIONS
    ) -> Trained:
        per_second = self._now(self._device.speed(self._spec.name))
        most = (options.until - asyncio.get_running_loop().time()) * per_second  # samples that there is time for
        num_wanted = options.local_epochs * sum(shard.num_samples for shard in shards)
        if self._model is None or parameters is self._initial:
            batch = self._spec.batch_size
            num_samples = num_wanted if most >= num_wanted else int(max(most, 0) // batch) * batch
        else:
            minibatches = self._kept.minibatches(self._model, parameters, shards, options)
            num_samples = 0
            end = (1 - self._device.skips) * num_wanted
            while num_samples < end and min(num_samples + self._spec.batch_size, num_wanted) <= most:
                num_samples += next(minibatches)
            self._kept.keep(self._model, parameters)
            parameters = self._poisoned(parameters, self._model.parameters())
        seconds = num_samples / per_second
        await self._load.work(seconds, self._meter)
        if self._device.skips:
            num_samples = num_wanted  # so it says
        return Trained(parameters, num_samples, seconds, num_samples < num_wanted)

    def _poisoned(self, start: Vectors, trained: Vectors) -> Vectors:
        """Return what the device says it trained."""
        device = self._device
        if device.poison == "scaled":
            return trained if device.poison_factor == 1 else _moved(start, trained, device.poison_factor)
        if device.poison == "zeros":
            return {name: torch.zeros_like(vector) for name, vector in trained.items()}
        first, *_, last = self._given or (start, start)
        self._given = [first, start]
        if device.poison == "stale":
            return first
        steps, changes = _length(start, last), _length(trained, start)
        return _moved(start, last, device.poison_factor * changes / steps if steps else 0.0)

    async def losses(self, parameters: Vectors, shard: Shard) -> Losses:
        values = np.zeros(shard.num_samples, np.float32)
        if self._model is not None:
            values = np.concatenate(list(self._model.losses(self._kept.state(self._model, parameters), shard)))
        seconds = shard.num_samples / self._now(_FORWARD_PER_TRAINED * self._device.speed(self._spec.name))
        await self._load.work(seconds, self._meter)
        return Losses(values, seconds)

    async def aggregate(self, shard: Shard, spec: PointsSpec) -> Aggregated:
        seconds = shard.num_samples / self._now(self._device.aggregates_per_second)
        points = remembered(shard.x, shard.y, spec)  # devices that hold the same still take the time each
        await self._load.work(seconds, self._meter)
        return Aggregated(points, seconds, is_cached=False)

    def _now(self, per_second: float) -> float:
        return self._load.pace(per_second, self._chance)


def _moved(start: Vectors, end: Vectors, factor: float) -> Vectors:
    """Return parameters on the way from one point to another, so many times as far."""
    return {
        name: vector + factor * (end[name] - vector) if vector.is_floating_point() else end[name]
        for name, vector in start.items()
    }


def _length(one: Vectors, other: Vectors) -> float:
    """Return how far two sets of parameters are apart."""
    real = (name for name, vector in one.items() if vector.is_floating_point())
    return math.hypot(*(float(torch.linalg.vector_norm(one[name] - other[name])) for name in real))


class ModelledEngine(Engine):
    """Takes the time that a device would take for the operations, on the loop's clock; the work itself is real.

    Args:
        operations_per_second: operations that the device can do when it has nothing else to do.
        load: background load of the device, which lowers its speed.
        seed: seed of the noise.
        accelerator: what really does the work.
    """

    def __init__(
        self,
        operations_per_second: float,
        load: ModelledLoad,
        meter: ModelledMeter,
        seed: int,
        accelerator: Accelerator = CPU,
    ) -> None:
        super().__init__(accelerator)
        self._meter = meter
        self._per_second = operations_per_second
        self._load = load
        self._chance = random.Random(seed)

    async def rehearse(self, work: Callable[[], object], operations: float) -> None:
        await self.run(lambda: None, operations)

    async def _run(self, work: Callable[[], T], operations: float) -> T:
        result = work()
        seconds = operations / self._load.pace(self._per_second, self._chance)
        await self._load.work(seconds, self._meter)
        return result


class InstantEngine(Engine):
    """Takes no time."""

    async def _run(self, work: Callable[[], T], operations: float) -> T:
        return work()


class SharedModels:
    """The model of each task, and its untrained parameters: one for all devices, since they train by turns.

    Args:
        is_trained: whether models learn; else only time passes.
        accelerator: what they learn on, whatever the devices are like.
    """

    def __init__(self, *, is_trained: bool, accelerator: Accelerator = CPU) -> None:
        self.accelerator = accelerator
        self._is_trained = is_trained
        self._made: dict[str, tuple[LocalModel, Vectors]] = {}

    def of(self, spec: TrainingSpec) -> tuple[LocalModel | None, Vectors, bool]:
        """Return the model of a task, None where only time passes, its untrained parameters, and `has_base` of it."""
        made = self._made.get(spec.name)
        if made is None:
            model = LocalModel(spec, allowed=None, accelerator=self.accelerator)
            made = self._made[spec.name] = (model, model.parameters())
        model, initial = made
        return model if self._is_trained else None, initial, model.has_base


class ModelledMachine(Machine):
    """A device that is modelled.

    Args:
        link: its link, slower while the device is busy with something else.
        seed: seed of its states and its noise.
    """

    def __init__(self, device: VirtualDevice, link: LinkInUse, seed: int, models: SharedModels) -> None:
        self._device = device
        self._seed = seed
        self._models = models
        self.accelerator = models.accelerator
        self._load = ModelledLoad(device, link, random.Random(seed))
        self.meter: ModelledMeter = ModelledMeter(device.power, asyncio.get_running_loop().time)

    def trainer(self, spec: TrainingSpec) -> Trainer:
        model, initial, has_base = self._models.of(spec)
        return ModelledTrainer(spec, initial, model, self._load, self._seed, self.meter, has_base=has_base)

    def engine(self, operations_per_sample: float) -> Engine:
        operations_per_second = self._device.speed("") * operations_per_sample
        return ModelledEngine(operations_per_second, self._load, self.meter, self._seed, self.accelerator)

    def background_load(self, fetch: Fetch) -> BackgroundLoad:
        return self._load


class InstantMachine(Machine):
    """A machine whose work takes no time; nobody trains on it."""

    def __init__(self, accelerator: Accelerator = CPU) -> None:
        self.accelerator = accelerator
        self.meter = ModelledMeter(PowerModel(), asyncio.get_running_loop().time)

    def trainer(self, spec: TrainingSpec) -> Trainer:
        raise NotImplementedError("a machine that takes no time cannot be trained on by the clock")

    def engine(self, operations_per_sample: float) -> Engine:
        return InstantEngine(self.accelerator)

    def background_load(self, fetch: Fetch) -> BackgroundLoad:
        return NoBackgroundLoad()
