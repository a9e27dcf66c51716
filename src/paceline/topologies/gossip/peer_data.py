"""The data that a peer holds, and what it trains of it in an epoch: the most useful samples first."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from paceline.devices.subset_benchmark import choose_threads
from paceline.learning.aggregated_points import AggregatedPoints
from paceline.learning.ranking import ranked_order
from paceline.learning.shards import Array, Shard
from paceline.learning.trainers import Aggregated, Trainer
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.jobs import GossipJob

_BENCHMARK_BATCHES = 8


@dataclass(frozen=True)
class Holding:
    """The data on a peer's device.

    Attributes:
        own: data that it trains.
        number: which part of a dataset that is; None if nobody else knows this data.
        copies: parts of others, kept for the case that those fail.
    """

    own: Shard
    number: int | None = None
    copies: Mapping[int, Shard] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[int, ...]:
        """Numbers of the parts that it holds, its own first."""
        return () if self.number is None else (self.number, *self.copies)


class TrainingData:
    """A peer's data in use, and its aggregated points."""

    def __init__(self, job: GossipJob, name: str, holding: Holding, trainer: Trainer) -> None:
        self._job = job
        self._seed = zlib.crc32(name.encode())
        self._holding = holding
        self._trainer = trainer
        self._shard = holding.own
        self._points: AggregatedPoints | None = None
        self._losses: Array | None = None
        self._ranked_at = 0
        self._taken: tuple[int, ...] = ()
        self._num_drawn = 0

    @property
    def num_samples(self) -> int:
        """Samples that are there to train."""
        return self._shard.num_samples

    async def measure(self) -> float:
        """Measure how many samples per second this device trains; a first pass warms it up."""
        few = self._job.batch_size * _BENCHMARK_BATCHES
        shard, start = self._shard.take(slice(few)), self._trainer.initial_parameters()
        await choose_threads(self._trainer, [shard])
        for _ in range(2):
            trained = await self._trainer.train(start, [shard])
        return trained.num_samples / trained.seconds

    @property
    def num_drawn(self) -> int:
        """Samples that it has drawn, where not all are trained in an epoch."""
        return self._num_drawn

    def go_on_after(self, num_drawn: int) -> None:
        """Go on drawing where it was."""
        self._num_drawn = num_drawn

    @property
    def threads(self) -> int | None:
        """Number of threads that it trains with; None if that is not known."""
        return self._trainer.num_threads

    async def aggregate(self) -> Aggregated | None:
        """Make the aggregated points, if the job uses them."""
        if self._job.points is None:
            return None
        made = await self._trainer.aggregate(self._shard, self._job.points)
        self._points, self._losses = made.points, None
        return made

    @property
    def taken(self) -> tuple[int, ...]:
        """Parts of others that it trains."""
        return self._taken

    def copy(self, part: int) -> Shard:
        """Return the copy of another's part."""
        return self._holding.copies[part]

    async def take(self, parts: tuple[int, ...]) -> None:
        """Train these parts of others besides its own from now on."""
        if parts == self._taken:
            return
        shards = [self._holding.own, *map(self.copy, parts)]
        self._shard = Shard(*map(np.concatenate, zip(*shards, strict=True)))
        self._taken = parts
        self._num_drawn = 0
        await self.aggregate()

    async def choose(self, parameters: Vectors, epoch: int, num_kept: int) -> tuple[Shard, float]:
        """Return the samples to train in an epoch, in that order, and the seconds that it took to rank them."""
        seconds = 0.0
        if self._points is None:
            order = self._draw(num_kept)
        else:
            loop = asyncio.get_running_loop()
            start = loop.time()
            if self._losses is None or epoch >= self._ranked_at + self._job.rank_epochs:
                points = Shard(self._points.x, self._points.y)
                self._losses = (await self._trainer.losses(parameters, points)).values
                self._ranked_at = epoch
            rng = np.random.default_rng((self._job.seed, self._seed, epoch))
            shuffle = rng if self._job.order == "shuffled" else None
            is_by_class = self._job.ranks == "class"
            order = ranked_order(self._losses, self._points, num_kept, shuffle, is_by_class=is_by_class)
            seconds = loop.time() - start
        return self._shard.take(order), seconds

    def _draw(self, num_kept: int) -> Array:
        """Draw the next samples in a random order of all; when all had their turn, in a new one."""
        drawn = []
        while num_kept > 0:
            lap, place = divmod(self._num_drawn, self.num_samples)
            rng = np.random.default_rng((self._job.seed, self._seed, lap + 1))
            drawn.append(rng.permutation(self.num_samples)[place : place + num_kept])
            self._num_drawn += len(drawn[-1])
            num_kept -= len(drawn[-1])
        return np.concatenate(drawn)
