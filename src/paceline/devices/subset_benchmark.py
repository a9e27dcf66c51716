"""Subset benchmark: run a small part of a job on this device, and infer its rates for the whole.

After Mays et al.: time the download of a few shards, then train a dummy copy of the model on them. Beyond the paper, a
warm-up is discarded, latency is fitted with the bandwidth, uploads are measured too, and the spread is kept.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from paceline.devices.background_load import BackgroundLoad
from paceline.devices.profiles import Profile, Rate
from paceline.errors import ConfigError
from paceline.learning.shards import Shard
from paceline.learning.trainers import Trained, Trainer, TrainOptions

_NUM_SMALL, _NUM_LARGE = 3, 2  # transfers of each size, after the warm-up
_NUM_TURNS, _TURN_SECONDS = 3, 0.15  # of training, for a device that does a pass over all shards in less than a turn
_MOST_PASSES = 64  # in a turn
_TRIAL_SECONDS = 0.1  # of training with one number of threads
_GAIN = 1.05  # that more threads must bring: less is chance, and leaves cores to others
_STRAY, _STRAY_SECONDS = 3.0, 0.25  # times the median, plus: an outlier, such as a device that was suspended
_LEAST_SECONDS = 1e-6  # a clock may not see less
_TO_DEVIATION = 1.4826  # standard deviation of a normal distribution, as a ratio of its median deviation


class Transfer(NamedTuple):
    """Size and duration of a transfer."""

    num_bytes: int
    seconds: float


class FittedDirection(NamedTuple):
    """One direction of a link: a transfer takes latency_seconds + bytes / rate."""

    rate: Rate
    latency_seconds: float


class MeasuredLink(ABC):
    """Link of a device, as far as a benchmark needs it."""

    @abstractmethod
    async def fetch(self, num_shards: int, *, with_parameters: bool) -> tuple[list[Shard], int]:
        """Download shards, and the parameters on request; returns the shards and the bytes of all."""

    @abstractmethod
    async def send(self, num_bytes: int) -> None:
        """Upload so many bytes."""


async def benchmark(link: MeasuredLink, trainer: Trainer, *, num_shards: int, up_bytes: int) -> Profile:
    """Measure a device's link and its trainer.

    Args:
        trainer: trainer of the job's model; it trains a dummy, whose parameters are discarded.
        num_shards: shards to measure with; more take longer and are more accurate.
        up_bytes: size of an update.
    """
    shards: list[Shard] = []

    async def fetch(is_large: bool) -> int:
        shards[:], num_bytes = await link.fetch(num_shards if is_large else 1, with_parameters=is_large)
        return num_bytes

    async def send(is_large: bool) -> int:
        num_bytes = up_bytes if is_large else up_bytes // 8
        await link.send(num_bytes)
        return num_bytes

    down, up = fit_direction(await time_transfers(fetch)), fit_direction(await time_transfers(send))
    return Profile(
        train=await measure_training(trainer, shards),
        down=down.rate,
        up=up.rate,
        latency_seconds=max(down.latency_seconds, up.latency_seconds),
    )


async def benchmark_states(
    load: BackgroundLoad, link: MeasuredLink, trainer: Trainer, *, num_shards: int, up_bytes: int
) -> tuple[Profile, ...]:
    """Measure a device in each state of its background load, in their order; the arguments are those of `benchmark`.

    The load must be in the phase "benchmark".
    """
    profiles = []
    for state in load.states:
        with load.held_in(state):
            profiles.append(await benchmark(link, trainer, num_shards=num_shards, up_bytes=up_bytes))
    return tuple(profiles)


async def time_transfers(transfer: Callable[[bool], Awaitable[int]]) -> list[Transfer]:
    """Time small and large transfers in turn, ending with a large one; `transfer` returns the bytes it moved."""
    loop, timed = asyncio.get_running_loop(), []
    await transfer(False)  # sets the connection up; not counted
    for is_large in (*[False] * (_NUM_SMALL - _NUM_LARGE), *[False, True] * _NUM_LARGE):
        start = loop.time()
        num_bytes = await transfer(is_large)
        timed.append(Transfer(num_bytes, max(loop.time() - start, _LEAST_SECONDS)))
    return timed


def fit_direction(transfers: Sequence[Transfer]) -> FittedDirection:
    """Fit bandwidth, latency and spread to transfers of two sizes, by medians; raises `ConfigError` for no bytes."""
    sizes = sorted({transfer.num_bytes for transfer in transfers})
    if not sizes or sizes[-1] < 1:
        raise ConfigError("the link could not be measured: no bytes came")
    middles = {size: statistics.median(t.seconds for t in transfers if t.num_bytes == size) for size in sizes}
    small, large = sizes[0], sizes[-1]
    if middles[large] > middles[small]:
        per_second = (large - small) / (middles[large] - middles[small])
        latency_seconds = max(0.0, middles[small] - small / per_second)
    else:  # too fast to distinguish sizes: all of it counts as bandwidth
        per_second, latency_seconds = large / middles[large], 0.0
    spread = _spread([transfer.seconds / middles[transfer.num_bytes] for transfer in transfers])
    return FittedDirection(Rate(per_second, spread), latency_seconds)


async def measure_training(trainer: Trainer, shards: Sequence[Shard]) -> Rate:
    """Measure the samples per second of one local epoch by training a dummy; raises `ConfigError` for no shards.

    A slow device trains each shard once. A fast one then trains all of them together, several times: a short moment is
    unreliable on a processor that is shared or throttled, and set-up would be a good part of it.
    """
    if not shards:
        raise ConfigError("training could not be measured: no shards came")
    await choose_threads(trainer, shards)
    dummy = trainer.initial_parameters()
    await trainer.train(dummy, shards[:1])  # warms up; not counted
    trained = [await trainer.train(dummy, (shard,)) for shard in shards]
    pass_seconds = sum(map(_seconds, trained))
    if pass_seconds < _TURN_SECONDS:
        passes = min(math.ceil(_TURN_SECONDS / pass_seconds), _MOST_PASSES)
        options = TrainOptions(local_epochs=passes)
        trained = [await trainer.train(dummy, shards, options) for _ in range(_NUM_TURNS)]
    middle = statistics.median(_seconds(turn) / turn.num_samples for turn in trained)
    # The time of a whole training is the mean, not the median, of that of its parts.
    usual = [turn for turn in trained if _seconds(turn) <= _STRAY * middle * turn.num_samples + _STRAY_SECONDS]
    per_second = sum(turn.num_samples for turn in usual) / sum(map(_seconds, usual))
    return Rate(per_second, _spread([per_second * _seconds(turn) / turn.num_samples for turn in trained]))


async def choose_threads(trainer: Trainer, shards: Sequence[Shard]) -> None:
    """Have a trainer use the number of threads that it trains fastest with, unless that is decided.

    Several threads are many times slower than one where others keep the cores busy, and gain nothing for small models.
    They take turns, so that whatever else the device does slows all of them alike, and their medians are compared.
    """
    counts, trainer.thread_counts = trainer.thread_counts, ()
    if len(counts) == 1:
        trainer.num_threads = counts[0]
    if len(counts) < 2:
        return
    loop, dummy = asyncio.get_running_loop(), trainer.initial_parameters()
    rates: dict[int, list[float]] = {count: [] for count in counts}
    for turn in range(_NUM_TURNS + 1):
        for count in counts:
            trainer.num_threads = count
            options = TrainOptions(local_epochs=_MOST_PASSES, until=loop.time() + _TRIAL_SECONDS)
            trained = await trainer.train(dummy, shards, options)
            if turn:  # the first warms up
                rates[count].append(trained.num_samples / _seconds(trained))
    medians = {count: statistics.median(rates[count]) for count in counts}
    fewest = min(counts)
    best = max(counts, key=medians.__getitem__)
    trainer.num_threads = best if medians[best] > _GAIN * medians[fewest] else fewest


def _seconds(trained: Trained) -> float:
    return max(trained.seconds, _LEAST_SECONDS)


def _spread(ratios: Sequence[float]) -> float:
    """Return the standard deviation of ratios around 1, robust against a few outliers."""
    return _TO_DEVIATION * statistics.median(abs(ratio - 1) for ratio in ratios)
