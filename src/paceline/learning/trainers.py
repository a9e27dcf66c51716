"""Who does the training for a learner: the interface, and the one that works in a thread in real time."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from paceline.learning.points import AggregatedPoints, PointsSpec, cached
from paceline.learning.shards import Array, Shard
from paceline.learning.training import LocalModel
from paceline.learning.vectors import Vectors

_T = TypeVar("_T")


class Trained(NamedTuple):
    """What came of training.

    Attributes:
        num_samples: samples trained, counted once per pass.
        seconds: from the first minibatch to the end of the last.
        is_halted: whether it stopped before all passes were done.
    """

    parameters: Vectors
    num_samples: int
    seconds: float
    is_halted: bool


class Losses(NamedTuple):
    """The loss of each sample, as float32, and how long it took to find them."""

    values: Array
    seconds: float


class Aggregated(NamedTuple):
    """Aggregated points, how long it took to have them, and whether they had been made before."""

    points: AggregatedPoints
    seconds: float
    is_cached: bool


class Trainer(ABC):
    """Trains a model from given parameters on given shards; does one thing at a time."""

    @abstractmethod
    async def train(
        self,
        parameters: Vectors,
        shards: Sequence[Shard],
        *,
        local_epochs: int = 1,
        until: float = math.inf,
        seed: int = 0,
        is_shuffled: bool = True,
        keeps_optimizer: bool = False,
    ) -> Trained:
        """Do so many passes over the shards, halting between two minibatches so as to end by `until`.

        Args:
            until: a time of the running loop's clock.
            seed: of the order of samples.
            is_shuffled: whether the order is drawn; else samples are trained in that of the shards.
            keeps_optimizer: whether the optimizer goes on with what it remembers (momentum and the like) from the last
                training of this trainer that kept it; else it starts anew.
        """

    @abstractmethod
    def initial_parameters(self) -> Vectors:
        """Parameters of the same shapes that nobody has trained: what a benchmark trains."""

    async def losses(self, parameters: Vectors, shard: Shard) -> Losses:
        """The loss of each sample with these parameters, in the order of the shard; changes nothing.

        Only peers ask for it; a trainer of learners alone need not have it.
        """
        raise NotImplementedError(f"{type(self).__name__} finds no losses")

    async def aggregate(self, shard: Shard, spec: PointsSpec) -> Aggregated:
        """Few points in place of many samples. Only peers ask for them, too."""
        raise NotImplementedError(f"{type(self).__name__} aggregates no points")


class Clock:
    """How a training thread tells time, in seconds."""

    def time(self) -> float:
        """Time that passes for everybody."""
        return time.monotonic()

    def busy_time(self) -> float:
        """Time that the calling thread has worked."""
        return time.thread_time()

    def pause(self, seconds: float, is_unwanted: threading.Event) -> None:
        """Let time pass, unless the work is unwanted."""
        is_unwanted.wait(seconds)


class _Unwanted(Exception):
    """Nobody waits for this work any more."""


class _Paced:
    """Steps of work in a thread, each followed by a rest: it then took as long as on a device that is slower.

    Attributes:
        start: when the work began, by the clock.
        last: when its last step ended, with its rest.
    """

    def __init__(self, clock: Clock, slowdown: float, is_unwanted: threading.Event) -> None:
        self._clock = clock
        self._slowdown = slowdown
        self._is_unwanted = is_unwanted
        self.start = self.last = clock.time()
        self._busy = clock.busy_time()

    def end_step(self) -> None:
        """A step is done."""
        clock = self._clock
        if self._slowdown > 1:
            busy = clock.busy_time()
            # What the work would have taken on the slower device; waiting for a core counts as part of it.
            rest = max(0.0, (busy - self._busy) * self._slowdown - (clock.time() - self.last))
            clock.pause(rest, self._is_unwanted)
            self._busy = busy
        self.last = clock.time()

    @property
    def seconds(self) -> float:
        """How long it took so far."""
        return self.last - self.start


class ThreadTrainer(Trainer):
    """Trains in a thread, in real time.

    Args:
        slowdown: makes this device so many times slower than it is, by pausing after each minibatch.
        clock: of the thread; it must go as fast as the loop's.
        cache: the folder where aggregated points are kept; None for the user's cache.
        watch_points: told of how many classes the points are made, of how many; in the thread.
    """

    def __init__(
        self,
        model: LocalModel,
        slowdown: float = 1.0,
        clock: Clock = Clock(),  # noqa: B008
        cache: Path | None = None,
        watch_points: Callable[[int, int], None] = lambda num_done, num_classes: None,
    ) -> None:
        self._model = model
        self._slowdown = slowdown
        self._clock = clock
        self._cache = cache
        self._watch_points = watch_points
        self._kept: torch.optim.Optimizer | None = None
        if slowdown > 1:  # what torch loads for its first step is no work of the slower device's
            model.task.optimizer.try_out()

    def initial_parameters(self) -> Vectors:
        return self._model.parameters()

    async def train(
        self,
        parameters: Vectors,
        shards: Sequence[Shard],
        *,
        local_epochs: int = 1,
        until: float = math.inf,
        seed: int = 0,
        is_shuffled: bool = True,
        keeps_optimizer: bool = False,
    ) -> Trained:
        if keeps_optimizer and self._kept is None:
            self._kept = self._model.new_optimizer()
        optimizer = self._kept if keeps_optimizer else None
        halt_at = self._clock.time() + (until - asyncio.get_running_loop().time())
        return await _in_thread(self._train, parameters, shards, local_epochs, halt_at, seed, is_shuffled, optimizer)

    async def losses(self, parameters: Vectors, shard: Shard) -> Losses:
        return await _in_thread(self._find_losses, parameters, shard)

    async def aggregate(self, shard: Shard, spec: PointsSpec) -> Aggregated:
        return await _in_thread(self._aggregate, shard, spec)

    def _train(
        self,
        parameters: Vectors,
        shards: Sequence[Shard],
        local_epochs: int,
        halt_at: float,
        seed: int,
        is_shuffled: bool,
        optimizer: torch.optim.Optimizer | None,
        is_unwanted: threading.Event,
    ) -> Trained:
        minibatches = self._model.minibatches(  # checks the shards
            self._model.layout.unpack(parameters),
            shards,
            seed,
            local_epochs,
            is_shuffled=is_shuffled,
            optimizer=optimizer,
        )
        num_samples, num_wanted = 0, local_epochs * sum(shard.num_samples for shard in shards)
        work = _Paced(self._clock, self._slowdown, is_unwanted)
        num_batches, seconds_per_batch = 0, 0.0
        while not is_unwanted.is_set() and work.last + seconds_per_batch < halt_at:
            num_batch_samples = next(minibatches, None)
            if num_batch_samples is None:
                break
            work.end_step()
            num_samples += num_batch_samples
            num_batches += 1
            seconds_per_batch = work.seconds / num_batches
        return Trained(self._model.parameters(), num_samples, work.seconds, num_samples < num_wanted)

    def _find_losses(self, parameters: Vectors, shard: Shard, is_unwanted: threading.Event) -> Losses:
        parts = []
        losses = self._model.losses(self._model.layout.unpack(parameters), shard)  # checks the shard
        work = _Paced(self._clock, self._slowdown, is_unwanted)
        for part in losses:
            work.end_step()
            parts.append(part)
            if is_unwanted.is_set():
                break
        return Losses(np.concatenate(parts), work.seconds)

    def _aggregate(self, shard: Shard, spec: PointsSpec, is_unwanted: threading.Event) -> Aggregated:
        work = _Paced(self._clock, self._slowdown, is_unwanted)

        def step(num_done: int, num_classes: int) -> None:
            work.end_step()
            self._watch_points(num_done, num_classes)
            if is_unwanted.is_set():
                raise _Unwanted

        points, is_cached = cached(shard.x, shard.y, spec, self._cache, step)
        work.end_step()
        return Aggregated(points, work.seconds, is_cached)


async def _in_thread(work: Callable[..., _T], *arguments: Any) -> _T:
    """Do the work in a thread, with an event as its last argument that tells that nobody wants it any more.

    Whoever cancels this waits until the thread has ended: the model must not be used twice at once.
    """
    loop, is_unwanted = asyncio.get_running_loop(), threading.Event()
    running = loop.run_in_executor(None, functools.partial(work, *arguments, is_unwanted))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        is_unwanted.set()
        await asyncio.gather(running, return_exceptions=True)  # ends with its next step
        raise
