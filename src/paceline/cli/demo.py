"""``paceline demo``: four unequal devices on this machine learn to read digits, each by the deadline."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import torch

from paceline import DabAllocation, DataSpec, Job, LocalDevice, LocalFleet, ModelSpec, topologies
from paceline.cli import show_run
from paceline.cli.options import Folder, Overwrite, PagePort, ResultAsJson, option
from paceline.devices.subset_benchmark import measure_training
from paceline.fleets.live import run_live
from paceline.learning.local_model import LocalModel
from paceline.learning.trainers import ThreadTrainer

_SHARD_SAMPLES, _LOCAL_EPOCHS = 16, 2
_MORE_THAN_ALL = 1_000_000  # shards
_FASTEST = 4  # times slower than this machine
_FASTEST_SHARE = 0.6  # of all shards, so that the fastest device is not done before the deadline
_LEAST_SECONDS, _MOST_SECONDS = 2.0, 10.0  # below, sending the model would take most of a round


class Pace(NamedTuple):
    """Deadline of the rounds, and how many times slower the devices are than those of a slow machine."""

    deadline_seconds: float
    slowdown: float


def demo(
    rounds: Annotated[int, option("N", "Number of rounds (12).", min=1)] = 12,
    folder: Folder = None,
    overwrite: Overwrite = False,
    page: PagePort = 0,
    as_json: ResultAsJson = False,
) -> None:
    """Train on four unequal devices, emulated on this machine.

    Example: paceline demo
    """
    pace = fit_pace(*_measure_fastest(_job(1, _MOST_SECONDS)))
    devices = _devices(pace.slowdown)
    opening = (
        f"Starting {len(devices)} devices on this machine, with rounds of {pace.deadline_seconds:g} s; "
        "each measures itself first …"
    )
    job = _job(rounds, pace.deadline_seconds, min_learners=len(devices))
    fleet = LocalFleet(devices)
    show_run.run_and_show(job, fleet, folder, overwrite=overwrite, as_json=as_json, page=page, opening=opening)


def fit_pace(samples_per_second: float, num_shards: int) -> Pace:
    """Choose a deadline by which the fastest device, of this speed, trains a good half of the shards.

    Where that would be too short a moment, the devices are slower instead.
    """
    shards = math.floor(_FASTEST_SHARE * num_shards)
    seconds = shards * _SHARD_SAMPLES * _LOCAL_EPOCHS / samples_per_second
    if seconds < _LEAST_SECONDS:
        return Pace(_LEAST_SECONDS, _LEAST_SECONDS / seconds)
    return Pace(min(math.floor(10 * seconds) / 10, _MOST_SECONDS), 1.0)


def _measure_fastest(job: Job) -> tuple[float, int]:
    """Return the samples per second of the fastest device, before it is slower still, and the number of all shards."""
    torch.set_num_threads(1)  # as devices have
    task, shards = topologies.of_job(job).prepare(job).benchmark_work(_MORE_THAN_ALL)
    trainer = ThreadTrainer(LocalModel(task), _FASTEST)
    rate = run_live(measure_training(trainer, shards[: job.benchmark_shards]))
    return rate.per_second, len(shards)


def _job(rounds: int, deadline_seconds: float, min_learners: int = 1) -> Job:
    return Job(
        rounds=rounds,
        deadline_seconds=deadline_seconds,
        local_epochs=_LOCAL_EPOCHS,
        batch_size=16,
        min_learners=min_learners,
        benchmark_shards=4,
        model=ModelSpec(name="deadline-net"),
        data=DataSpec(name="digits", shard_size=_SHARD_SAMPLES),
        allocation=DabAllocation(),
    )


def _devices(slowdown: float) -> list[LocalDevice]:
    return [
        LocalDevice(name="laptop", slowdown=_FASTEST * slowdown),
        LocalDevice(name="old-pc", slowdown=8 * slowdown, down_mbit=100, up_mbit=40, latency_ms=2),
        LocalDevice(name="jetson", slowdown=16 * slowdown, down_mbit=100, up_mbit=40, latency_ms=2),
        LocalDevice(name="pi", slowdown=32 * slowdown, down_mbit=40, up_mbit=20, latency_ms=5),
    ]
