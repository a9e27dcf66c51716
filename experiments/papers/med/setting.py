"""The setting of Mays, section 4.3: three jobs, ten devices whose owners use them as well, and the schemes compared.

What the thesis does not tell is ours, and was searched for: `SHARD_SECONDS`, `LINK_MBIT` and what the states leave of
both. The README of med-learners says how.
"""

from __future__ import annotations

import functools
import math
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from paceline.allocation import MedAllocation, MmttAllocation, PoolPolicy
from paceline.devices.states import DeviceState, heated_softmax
from paceline.fleets.modelled import VirtualDevice
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from papers import AVERAGE
from reproduction.trials import write_part

SCHEMES = ("med", "mmtt-ideal", "mmtt-uncertain", "med-held-back")
HELD_BACK = 0.5
MAX_DEVICES = 10
SHARD_SAMPLES = 500
HEAT = 0.5  # of the softmax that makes a device's distribution of states

# Ours: what an idle device needs to train a shard once, in seconds, by model; its link; what the states leave.
SHARD_SECONDS = {"three-nn": 0.315, "conv-net": 0.191, "fashion-net": 1.258}
LINK_MBIT = 80.0
LATENCY_MS = 10.0
TRAINING_SLOWS = 2.75
DOWNLOADING_SLOWS = 2.0
DEVIATION, MOST_DEVIATIONS = 0.03, 2.0  # of a device's speed and link from those, normally distributed and cut


class Kind(NamedTuple):
    """A job of Table 4.1."""

    data: str
    model: str
    local_epochs: int
    deadline_seconds: float
    num_shards: int


KINDS = {
    "mnist-ff": Kind("mnist", "three-nn", 2, 55.0, 60),
    "mnist-cn": Kind("mnist", "conv-net", 1, 40.0, 60),
    "fashion": Kind("fashion-mnist", "fashion-net", 1, 40.0, 20),
    "fashion-2": Kind("fashion-mnist", "fashion-net", 1, 40.0, 20),
}
"""By the name of the job, in the order in which they come."""


class Size(NamedTuple):
    """How large a trial is.

    Attributes:
        rounds: of each job.
        scale: how many times fewer samples a shard has; devices are as many times slower.
        num_test_samples: None for all.
    """

    rounds: int = 5
    scale: int = 1
    num_test_samples: int | None = None


def policy_of(scheme: str, budget: float) -> PoolPolicy:
    """The policy of a scheme; the budget is for one round of every job."""
    match scheme:
        case "mmtt-ideal":
            return MmttAllocation(budget=budget, knowledge="ideal")
        case "mmtt-uncertain":
            return MmttAllocation(budget=budget, knowledge="uncertain")
        case "med-held-back":
            return MedAllocation(budget=budget, held_back=HELD_BACK)
    return MedAllocation(budget=budget)


def devices_of(seed: int, count: int, size: Size) -> list[VirtualDevice]:
    """The first devices of a trial: a seed has the same ones whatever their number."""
    return [_device(seed, number, size.scale) for number in range(count)]


@functools.lru_cache(maxsize=2)
def jobs_of(num_jobs: int, size: Size, *, more_seconds: float = 0.0, seed: int = 0) -> Sequence[PreparedJob]:
    """The first jobs, ready to be played; kept for the next call, because cutting the data takes a while.

    Args:
        more_seconds: that deadlines are later than in Table 4.1.
        seed: of initial parameters and of the order of the data.
    """
    with tempfile.TemporaryDirectory() as folder:
        kinds = dict(list(KINDS.items())[:num_jobs])
        parts = {kind.data: _part(kind, size, Path(folder)) for kind in kinds.values()}
        jobs = [_job(name, kind, parts[kind.data], size, more_seconds, seed) for name, kind in kinds.items()]
        return [prepare_job(job) for job in jobs]


def draw_distribution(num_states: int, heat: float, chance: random.Random) -> list[float]:
    """Draw probabilities of states, of which a random one is the likeliest."""
    usual = chance.randrange(num_states)
    return heated_softmax([float(number == usual) for number in range(num_states)], heat)


def draw_price(chance: random.Random) -> float:
    """Draw a learner's price of a shard: normal around 1 with a variance of 0.5, clipped to 0.1 and 1.5."""
    return min(max(chance.gauss(1.0, math.sqrt(0.5)), 0.1), 1.5)


def _device(seed: int, number: int, scale: int) -> VirtualDevice:
    chance = random.Random(f"device {number} of trial {seed}")
    price, (idle, training, downloading) = draw_price(chance), draw_distribution(3, HEAT, chance)
    slower, thinner = _deviation(chance), _deviation(chance)
    return VirtualDevice(
        name=f"device-{number}",
        samples_per_second={
            name: SHARD_SAMPLES / SHARD_SECONDS[kind.model] / slower / scale for name, kind in KINDS.items()
        },
        down_mbit=LINK_MBIT / thinner,
        up_mbit=LINK_MBIT / thinner,
        latency_ms=LATENCY_MS,
        price=price,
        # The slowest link comes first: a learner that halts keeps time free for its upload by the first of its states.
        states=(
            DeviceState(name="downloading", probability=downloading, bandwidth=1 / DOWNLOADING_SLOWS),
            DeviceState(name="training", probability=training, speed=1 / TRAINING_SLOWS),
            DeviceState(name="idle", probability=idle),
        ),
    )


def _deviation(chance: random.Random) -> float:
    return 1 + DEVIATION * min(max(chance.gauss(0, 1), -MOST_DEVIATIONS), MOST_DEVIATIONS)


def _part(kind: Kind, size: Size, folder: Path) -> DataSpec:
    """The data of a job, four bytes a pixel, as the thesis sends it."""
    shard_size = SHARD_SAMPLES // size.scale
    part = write_part(
        DataSpec(name=kind.data),
        folder / f"{kind.data}.npz",
        num_samples=kind.num_shards * shard_size,
        num_test_samples=size.num_test_samples,
        dtype="float32",
    )
    return msgspec.structs.replace(part, shard_size=shard_size)


def _job(name: str, kind: Kind, data: DataSpec, size: Size, more_seconds: float, seed: int) -> Job:
    return Job(
        name=name,
        deadline_seconds=kind.deadline_seconds + more_seconds,
        rounds=size.rounds,
        local_epochs=kind.local_epochs,
        batch_size=32,
        seed=seed,
        benchmark_shards=1,  # nothing varies while a device is measured: more would tell the same
        model=ModelSpec(name=kind.model),
        optimizer=OptimizerSpec(name="Adam", options={"lr": 1e-4}),
        aggregation=AVERAGE,
        data=data,
    )
