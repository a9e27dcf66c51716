"""Who does the training for a learner: the interface, and the one that works in a thread in real time."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from paceline.learning.shards import Shard
from paceline.learning.training import LocalModel
from paceline.learning.vectors import Vectors


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


class Trainer(ABC):
    """Trains a model from given parameters on given shards; one training at a time."""

    @abstractmethod
    async def train(
        self,
        parameters: Vectors,
        shards: Sequence[Shard],
        *,
        iterations: int = 1,
        until: float = math.inf,
        seed: int = 0,
    ) -> Trained:
        """Do so many passes over the shards, halting between two minibatches so as to end by `until`.

        Args:
            until: a time of the running loop's clock.
            seed: of the order of samples.
        """

    @abstractmethod
    def initial_parameters(self) -> Vectors:
        """Parameters of the same shapes that nobody has trained: what a benchmark trains."""


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


class ThreadTrainer(Trainer):
    """Trains in a thread, in real time.

    Args:
        slowdown: makes this device so many times slower than it is, by pausing after each minibatch.
        clock: of the thread; it must go as fast as the loop's.
    """

    def __init__(self, model: LocalModel, slowdown: float = 1.0, clock: Clock = Clock()) -> None:  # noqa: B008
        self._model = model
        self._slowdown = slowdown
        self._clock = clock
        if slowdown > 1:  # what torch loads for its first step is no work of the slower device's
            model.task.optimizer.try_out()

    def initial_parameters(self) -> Vectors:  # noqa: D102
        return self._model.parameters()

    async def train(  # noqa: D102
        self,
        parameters: Vectors,
        shards: Sequence[Shard],
        *,
        iterations: int = 1,
        until: float = math.inf,
        seed: int = 0,
    ) -> Trained:
        loop, is_unwanted = asyncio.get_running_loop(), threading.Event()
        halt_at = self._clock.time() + (until - loop.time())
        work = loop.run_in_executor(None, self._train, parameters, shards, iterations, halt_at, seed, is_unwanted)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            is_unwanted.set()
            await asyncio.wait((work,))  # ends within a minibatch; the model must not be trained twice at once
            raise

    def _train(
        self,
        parameters: Vectors,
        shards: Sequence[Shard],
        iterations: int,
        halt_at: float,
        seed: int,
        is_unwanted: threading.Event,
    ) -> Trained:
        state, clock = self._model.layout.unpack(parameters), self._clock
        minibatches = self._model.minibatches(state, shards, seed, iterations)  # checks the shards
        num_samples, num_wanted = 0, iterations * sum(shard.num_samples for shard in shards)
        start = last = clock.time()
        busy, pace = clock.busy_time(), 0.0  # pace: seconds per minibatch so far
        num_batches = 0
        while not is_unwanted.is_set() and last + pace < halt_at:
            num_batch_samples = next(minibatches, None)
            if num_batch_samples is None:
                break
            if self._slowdown > 1:
                now_busy = clock.busy_time()
                # What the work would have taken on the slower device; waiting for a core counts as part of it.
                clock.pause(max(0.0, (now_busy - busy) * self._slowdown - (clock.time() - last)), is_unwanted)
                busy = now_busy
            num_samples += num_batch_samples
            num_batches += 1
            last = clock.time()
            pace = (last - start) / num_batches
        return Trained(self._model.parameters(), num_samples, last - start, num_samples < num_wanted)
