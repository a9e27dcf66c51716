"""Profiling runs: training beside loads of several kinds and strengths, to observe usage and duration."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from paceline.devices.contention.loads import Load, running
from paceline.devices.contention.regression import Observation
from paceline.devices.contention.usage import Reader, SystemReader, usage_between
from paceline.devices.subset_benchmark import choose_threads
from paceline.errors import ConfigError
from paceline.learning.shards import Shard
from paceline.learning.trainers import Trainer, TrainOptions

NUM_TURNS = 3
"""Turns of each load, in another order each time."""
SETTLE_RATIO = 0.25
"""Share of a turn that is not counted, while loads and training get going."""

_MOST_LOCAL_EPOCHS = 1 << 15  # the clock ends a turn before
_LEAST_SECONDS = 1e-6  # a clock may not see less


async def profile_training(
    trainer: Trainer,
    shards: Sequence[Shard],
    loads: Sequence[Load],
    *,
    seconds: float,
    seed: int = 0,
    read: Reader | None = None,
    watch: Callable[[int, int], None] = lambda num_done, num_turns: None,
) -> list[Observation]:
    """Train a dummy beside each of the loads, `NUM_TURNS` times.

    Args:
        trainer: trainer in this process, as the counters assume.
        shards: shards to train on repeatedly.
        seconds: duration of all turns, without starting the loads.
        seed: seed of the order of loads.
        read: reads the counters; by default those of this machine, less those of this process alone.
        watch: called after each turn with the number of turns done, and of all.
    """
    if not shards or not loads:
        raise ConfigError("training could not be profiled: there are no shards, or no loads")
    chance, reader = random.Random(seed), read or SystemReader(with_children=False)
    turns = [load for _ in range(NUM_TURNS) for load in chance.sample(loads, len(loads))]
    turn_seconds = seconds / len(turns)
    await choose_threads(trainer, shards)
    await trainer.train(trainer.initial_parameters(), shards[:1])  # warms up; not counted
    observations = []
    for number, load in enumerate(turns, 1):
        with running(load):
            observations.append(await _observe(trainer, shards, load, turn_seconds, reader))
        watch(number, len(turns))
    return observations


async def _observe(
    trainer: Trainer, shards: Sequence[Shard], load: Load, turn_seconds: float, read: Reader
) -> Observation:
    dummy, loop = trainer.initial_parameters(), asyncio.get_running_loop()
    until = loop.time() + SETTLE_RATIO * turn_seconds
    await trainer.train(dummy, shards, TrainOptions(local_epochs=_MOST_LOCAL_EPOCHS, until=until))
    before = read()
    until = loop.time() + (1 - SETTLE_RATIO) * turn_seconds
    trained = await trainer.train(dummy, shards, TrainOptions(local_epochs=_MOST_LOCAL_EPOCHS, until=until))
    if not trained.num_samples:  # the device is too slow for so short a turn
        trained = await trainer.train(dummy, shards[:1])
    return Observation(
        load=load.name,
        usage=usage_between(before, read()),
        seconds_per_sample=max(trained.seconds, _LEAST_SECONDS) / trained.num_samples,
    )
