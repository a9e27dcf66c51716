"""Trainers: the interface by which roles train a model, and its implementation in a thread, in real time."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from paceline.errors import ConfigError, OutOfMemory, in_one_line
from paceline.learning import aggregated_points
from paceline.learning.accelerators import CPU, Accelerator
from paceline.learning.averaging import State
from paceline.learning.local_model import LocalModel
from paceline.learning.optimizer_memory import load_memory, memory_of, split_off
from paceline.learning.shards import Array, Shard
from paceline.learning.vectors import Vectors

_T = TypeVar("_T")

_KEPT = "kept/"  # before names of what does not travel, in a trainer's memory
_OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)
_ALLOCATION_FAILED = "can't allocate memory"  # part of what torch says on the CPU, where it has no class for it


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How a trainer goes through its shards.

    Attributes:
        local_epochs: passes over the shards.
        until: time of the running loop's clock by which training ends, halting between two minibatches.
        seed: seed of the order of samples.
        round: number of the round or epoch.
        is_shuffled: whether the order is drawn at random; otherwise it is that of the shards.
        keeps_optimizer: whether the optimizer keeps its state (momentum and the like) from this trainer's last
            training with this option; otherwise it starts afresh.
    """

    local_epochs: int = 1
    until: float = math.inf
    seed: int = 0
    round: int = 1
    is_shuffled: bool = True
    keeps_optimizer: bool = False


DEFAULT_OPTIONS = TrainOptions()


class Trained(NamedTuple):
    """Result of a training.

    Attributes:
        num_samples: samples trained, counted once per pass.
        seconds: duration from the first minibatch to the end of the last.
        is_halted: whether it stopped before all passes were done.
    """

    parameters: Vectors
    num_samples: int
    seconds: float
    is_halted: bool


class Losses(NamedTuple):
    """Loss of each sample, as float32, and how long computing them took."""

    values: Array
    seconds: float


class Aggregated(NamedTuple):
    """Aggregated points, how long that took, and whether they came from the cache."""

    points: aggregated_points.AggregatedPoints
    seconds: float
    is_cached: bool


class KeptTraining:
    """What a device keeps from one training to the next: its optimizer, if it is to, and what does not travel.

    Args:
        initial: untrained parameters; training from them is a benchmark's, of which nothing is kept.
    """

    def __init__(self, initial: Vectors) -> None:
        self._initial = initial
        self._optimizer: torch.optim.Optimizer | None = None
        self._base: State = {}
        self._kept: State = {}

    def load_base(self, model: LocalModel, state: State) -> None:
        """Set what does not travel, as it was at the start; raises `ConfigError` if it does not fit."""
        model.load({**model.layout.unpack(self._initial), **state})
        self._base, self._kept = dict(state), {}

    def state(self, model: LocalModel, parameters: Vectors) -> State:
        """Return the parameters to train, and what does not travel."""
        return {**(self._base or model.initial_kept), **model.layout.unpack(parameters), **self._kept}

    def minibatches(
        self, model: LocalModel, parameters: Vectors, shards: Sequence[Shard], options: TrainOptions
    ) -> Iterator[int]:
        """Train minibatch by minibatch, yielding the samples of each; see `LocalModel.minibatches`."""
        if options.keeps_optimizer and self._optimizer is None:
            self._optimizer = model.new_optimizer()
        return model.minibatches(
            self.state(model, parameters),
            shards,
            options.seed,
            options.local_epochs,
            round=options.round,
            is_shuffled=options.is_shuffled,
            optimizer=self._optimizer if options.keeps_optimizer else None,
        )

    def memory(self, model: LocalModel) -> State:
        """Return what the next training goes on from, besides parameters: what does not travel, and the optimizer's."""
        remembered = {} if self._optimizer is None else memory_of(self._optimizer, model.module)
        return {**{f"{_KEPT}{name}": tensor for name, tensor in self._kept.items()}, **remembered}

    def restore(self, model: LocalModel, memory: State) -> None:
        """Go on from what `memory` returned; raises `ConfigError` for what does not fit."""
        kept, remembered = split_off(memory)
        self._kept = {name.removeprefix(_KEPT): tensor for name, tensor in kept.items()}
        if not self._kept.keys() <= set(model.kept_names):
            raise ConfigError("what a training kept does not fit the model")
        self._optimizer = model.new_optimizer()
        load_memory(self._optimizer, model.module, remembered)

    def keep(self, model: LocalModel, parameters: Vectors) -> None:
        """Keep what a training that started from these parameters left in the model."""
        if model.kept_names and parameters is not self._initial:
            self._kept = model.kept()


class Trainer(ABC):
    """Trains a model from given parameters on given shards; does one thing at a time.

    Attributes:
        thread_counts: numbers of threads that a benchmark chooses from; empty if there is nothing to choose.
        num_threads: number of threads that was chosen; None for what PyTorch uses by itself.
        has_base: whether what of the model does not travel is right as it is; else it has to be loaded.
    """

    thread_counts: Sequence[int] = ()
    num_threads: int | None = None
    has_base: bool = True

    @abstractmethod
    async def train(
        self, parameters: Vectors, shards: Sequence[Shard], options: TrainOptions = DEFAULT_OPTIONS
    ) -> Trained:
        """Train on the shards, from these parameters."""

    @abstractmethod
    def initial_parameters(self) -> Vectors:
        """Return untrained parameters of the same shapes, for a benchmark to train."""

    def load_base(self, state: State) -> None:
        """Set what of the model does not travel; raises `ConfigError` if it does not fit."""
        raise NotImplementedError(f"{type(self).__name__} holds no model")

    def memory(self) -> State:
        """Return what the next training with `keeps_optimizer` goes on from, besides parameters."""
        return {}

    def restore(self, memory: State) -> None:
        """Go on from what `memory` returned; raises `ConfigError` if it does not fit."""

    async def losses(self, parameters: Vectors, shard: Shard) -> Losses:
        """Compute the loss of each sample, in the order of the shard; only peers need it."""
        raise NotImplementedError(f"{type(self).__name__} computes no losses")

    async def aggregate(self, shard: Shard, spec: aggregated_points.PointsSpec) -> Aggregated:
        """Aggregate many samples into a few points; only peers need it."""
        raise NotImplementedError(f"{type(self).__name__} aggregates no points")


class Clock:
    """Clock of a training thread, in seconds."""

    def time(self) -> float:
        """Return the wall-clock time."""
        return time.monotonic()

    def busy_time(self) -> float:
        """Return the processor time of the calling thread."""
        return time.thread_time()

    def pause(self, seconds: float, is_cancelled: threading.Event) -> None:
        """Sleep, at most until the work is cancelled."""
        is_cancelled.wait(seconds)


class _Cancelled(Exception):
    """The work was cancelled."""


class _PacedSteps:
    """Steps of work in a thread, each followed by a pause, so that they take as long as on a slower device.

    Before a clock is read, the accelerator is waited for: what is only queued is not done.

    Attributes:
        start: when the work began, by the clock.
        last: when its last step ended, pause included.
    """

    def __init__(
        self, clock: Clock, slowdown: float, is_cancelled: threading.Event, accelerator: Accelerator = CPU
    ) -> None:
        self._clock = clock
        self._accelerator = accelerator
        self._slowdown = slowdown
        self._is_cancelled = is_cancelled
        accelerator.synchronise()
        self.start = self.last = clock.time()
        self._busy = self._busy_time()

    def end_step(self) -> None:
        """Pause for as long as a slower device would still have worked on this step."""
        clock = self._clock
        self._accelerator.synchronise()
        if self._slowdown > 1:
            busy = self._busy_time()
            # What the work would have taken on the slower device; waiting for a core counts as part of it.
            rest = max(0.0, (busy - self._busy) * self._slowdown - (clock.time() - self.last))
            clock.pause(rest, self._is_cancelled)
            self._busy = self._busy_time()
        self.last = clock.time()

    def _busy_time(self) -> float:
        # The processor idles while another one computes.
        return self._clock.busy_time() if self._accelerator.is_cpu else self._clock.time()

    @property
    def seconds(self) -> float:
        """Duration so far."""
        return self.last - self.start


class ThreadTrainer(Trainer):
    """Trains in a thread, in real time.

    Args:
        slowdown: factor by which to slow this device down, by pausing after each minibatch.
        clock: clock of the thread; it must run as fast as the loop's.
        cache: folder of aggregated points; None for the user's cache.
        watch_points: called in the thread with the number of classes aggregated so far, and of all.
        thread_counts: see `Trainer`.
    """

    def __init__(
        self,
        model: LocalModel,
        slowdown: float = 1.0,
        clock: Clock = Clock(),  # noqa: B008
        cache: Path | None = None,
        watch_points: Callable[[int, int], None] = lambda num_done, num_classes: None,
        thread_counts: Sequence[int] = (),
    ) -> None:
        self.thread_counts = thread_counts
        self.has_base = model.has_base
        self._model = model
        self._slowdown = slowdown
        self._clock = clock
        self._cache = cache
        self._watch_points = watch_points
        self._initial = model.parameters()
        self._kept = KeptTraining(self._initial)
        if slowdown > 1:  # what torch loads for its first step is no work of the slower device's
            model.spec.optimizer.try_out()

    def initial_parameters(self) -> Vectors:
        return self._initial

    def load_base(self, state: State) -> None:
        self._kept.load_base(self._model, state)

    def memory(self) -> State:
        return self._kept.memory(self._model)

    def restore(self, memory: State) -> None:
        self._kept.restore(self._model, memory)

    async def train(
        self, parameters: Vectors, shards: Sequence[Shard], options: TrainOptions = DEFAULT_OPTIONS
    ) -> Trained:
        halt_at = self._clock.time() + (options.until - asyncio.get_running_loop().time())
        return await _in_thread(self._train, parameters, shards, options, halt_at)

    async def losses(self, parameters: Vectors, shard: Shard) -> Losses:
        return await _in_thread(self._find_losses, parameters, shard)

    async def aggregate(self, shard: Shard, spec: aggregated_points.PointsSpec) -> Aggregated:
        return await _in_thread(self._aggregate, shard, spec)

    def _train(
        self,
        parameters: Vectors,
        shards: Sequence[Shard],
        options: TrainOptions,
        halt_at: float,
        is_cancelled: threading.Event,
    ) -> Trained:
        self._use_threads()
        minibatches = self._kept.minibatches(self._model, parameters, shards, options)  # checks the shards
        num_samples, num_wanted = 0, options.local_epochs * sum(shard.num_samples for shard in shards)
        work = _PacedSteps(self._clock, self._slowdown, is_cancelled, self._model.accelerator)
        num_batches, seconds_per_batch = 0, 0.0
        while not is_cancelled.is_set() and work.last + seconds_per_batch < halt_at:
            num_batch_samples = next(minibatches, None)
            if num_batch_samples is None:
                break
            work.end_step()
            num_samples += num_batch_samples
            num_batches += 1
            seconds_per_batch = work.seconds / num_batches
        self._kept.keep(self._model, parameters)
        return Trained(self._model.parameters(), num_samples, work.seconds, num_samples < num_wanted)

    def _use_threads(self) -> None:
        if self.num_threads is not None:
            torch.set_num_threads(self.num_threads)  # each thread has a number of its own

    def _find_losses(self, parameters: Vectors, shard: Shard, is_cancelled: threading.Event) -> Losses:
        self._use_threads()
        parts = []
        losses = self._model.losses(self._kept.state(self._model, parameters), shard)  # checks the shard
        work = _PacedSteps(self._clock, self._slowdown, is_cancelled, self._model.accelerator)
        for part in losses:
            work.end_step()
            parts.append(part)
            if is_cancelled.is_set():
                break
        return Losses(np.concatenate(parts), work.seconds)

    def _aggregate(self, shard: Shard, spec: aggregated_points.PointsSpec, is_cancelled: threading.Event) -> Aggregated:
        work = _PacedSteps(self._clock, self._slowdown, is_cancelled)

        def step(num_done: int, num_classes: int) -> None:
            work.end_step()
            self._watch_points(num_done, num_classes)
            if is_cancelled.is_set():
                raise _Cancelled

        points, is_cached = aggregated_points.cached(shard.x, shard.y, spec, self._cache, step)
        work.end_step()
        return Aggregated(points, work.seconds, is_cached)


async def _in_thread(work: Callable[..., _T], *arguments: Any) -> _T:
    """Do the work in a thread; its last argument is an event that is set once the work is cancelled.

    Cancelling waits until the thread has ended: the model must not be used twice at once. Raises `OutOfMemory`.
    """
    loop, is_cancelled = asyncio.get_running_loop(), threading.Event()
    running = loop.run_in_executor(None, functools.partial(work, *arguments, is_cancelled))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        is_cancelled.set()
        await asyncio.gather(running, return_exceptions=True)  # ends with its next step
        raise
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, _OUT_OF_MEMORY) or _ALLOCATION_FAILED in str(error):
            raise OutOfMemory(
                f"training took more memory than there is: {in_one_line(error)}; try smaller batches, or give it more "
                "(--max-memory)"
            ) from error
        raise
