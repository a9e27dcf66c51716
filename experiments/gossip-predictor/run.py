"""How far the predicted speed of training is off beside other jobs, what those use, and what predicting costs."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.devices.contention import ContentionMonitor, ContentionPredictor, RecentPredictor, SlowdownModel
from paceline.devices.contention.loads import IDLE, Load, loads_for
from paceline.devices.contention.profiling import profile_training
from paceline.devices.contention.regression import cross_validate, fit_slowdown
from paceline.devices.contention.usage import SystemReader, usage_between
from paceline.fleets.live import run_live
from paceline.learning.datasets import DataSpec
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.trainers import ThreadTrainer, Trainer, TrainOptions
from paceline.topologies.gossip.figures import Figures
from paceline.topologies.gossip.redis_store import RedisStore
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.prepared import prepare_job
from reproduction import About, Row
from reproduction.companions import started
from reproduction.redis_server import is_installed, started_redis
from reproduction.rows import where

ABOUT = About(
    figure="Han et al., Fig. 9 to 11",
    claim="Beside other jobs, training times are predicted to 4.30 % on average, at a cost of milliseconds.",
    duration="10 minutes",
    num_seeds=3,
)
PROGRAM = Path(__file__).with_name("corunner.py")
KINDS = ("wordcount", "sort")
SPLIT_MB = 16  # what one process of a job takes of its input, as long as there are not too many
NUM_TRIES = 10  # of each cost


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is run.

    Attributes:
        sizes_mb: of the inputs of the jobs beside.
        profile_seconds: for the profiling runs.
        settle_seconds: of training beside a job before the first epoch that counts.
        num_epochs: beside each job and size.
    """

    job: Job
    loads: Sequence[Load]
    sizes_mb: Sequence[int]
    profile_seconds: float
    settle_seconds: float
    epoch_seconds: float
    num_epochs: int


FULL = Size(
    job=Job(
        deadline_seconds=1,
        model=ModelSpec(name="lenet-5"),
        optimizer=OptimizerSpec(options={"lr": 0.01, "momentum": 0.9}),
        data=DataSpec(name="mnist", shard_size=500),
        batch_size=64,
    ),
    loads=loads_for(os.cpu_count() or 1),
    sizes_mb=(1, 8, 64, 256),
    profile_seconds=70,
    settle_seconds=4,
    epoch_seconds=4,
    num_epochs=2,
)
QUICK = Size(
    job=Job(deadline_seconds=1, data=DataSpec(name="digits", shard_size=100)),
    loads=(IDLE, Load(num_processes=1), Load(num_processes=2)),
    sizes_mb=(1, 8),
    profile_seconds=2,
    settle_seconds=0.3,
    epoch_seconds=0.3,
    num_epochs=2,
)


@dataclass(frozen=True)
class Subject:
    """What is trained, and what was found out of it by profiling."""

    trainer: Trainer
    shards: Sequence[Shard]
    seconds_per_sample: float
    slowdown: SlowdownModel
    error_ratio: float


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """A row per job beside, size of its input, and epoch; the device is profiled anew first."""
    size = QUICK if is_quick else FULL
    subject = _profile(size, seed)
    settings = [(kind, size_mb) for kind in KINDS for size_mb in size.sizes_mb]
    random.Random(seed).shuffle(settings)
    for kind, size_mb in settings:
        with _beside(kind, size_mb):
            epochs = run_live(_train(subject, size))
            costs = _costs()
        for epoch in epochs:
            yield {"job": kind, "size_mb": size_mb, **epoch, **costs, "profile_error": 100 * subject.error_ratio}


def _profile(size: Size, seed: int) -> Subject:
    prepared = prepare_job(size.job)
    trainer, shards = ThreadTrainer(LocalModel(prepared.training)), prepared.draw(8)
    observations = run_live(profile_training(trainer, shards, size.loads, seconds=size.profile_seconds, seed=seed))
    alone, slowdown = fit_slowdown(observations)
    return Subject(trainer, shards, alone, slowdown, cross_validate(observations))


@contextlib.contextmanager
def _beside(kind: str, size_mb: int) -> Iterator[None]:
    """Have a job run on this machine, in as many processes as its input needs, but at most two for each core."""
    num_processes = min(math.ceil(size_mb / SPLIT_MB), 2 * (os.cpu_count() or 1))
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(started(PROGRAM)) for _ in range(num_processes)]
        for program in programs:
            program.ask(kind=kind, num_bytes=round(size_mb * 1e6 / num_processes))
        yield


async def _train(subject: Subject, size: Size) -> list[Row]:
    """Predict each epoch right before it, in several ways."""
    read = SystemReader(with_children=False)  # the job beside is a child, and not of the training
    epochs: list[Row] = []
    with ContentionMonitor(read) as monitor:
        contention = ContentionPredictor(subject.seconds_per_sample, subject.slowdown, monitor.usage)
        recent = RecentPredictor()
        for number in range(size.num_epochs + 1):
            has_settled = number > 0
            predicted = {
                "forecast": 1 / contention.samples_per_second(),
                "recent": 1 / recent.samples_per_second() if has_settled else math.nan,
                "alone": subject.seconds_per_sample,
            }
            before = read()
            num_samples, seconds = await _epoch(subject, size.epoch_seconds if has_settled else size.settle_seconds)
            usage = usage_between(before, read())
            contention.observe(num_samples, seconds)
            recent.observe(num_samples, seconds)
            if not has_settled:
                continue
            predicted["same time"] = subject.seconds_per_sample * subject.slowdown.ratio(usage)
            actual = seconds / num_samples
            epochs.append(
                {
                    "epoch": number,
                    "slowdown": round(actual / subject.seconds_per_sample, 4),
                    **{
                        f"off_{way.replace(' ', '_')}": round(100 * (t / actual - 1), 2) for way, t in predicted.items()
                    },
                    "cpu": round(100 * usage.cpu_ratio, 2),
                    "network_mb_per_second": round(usage.network_bytes_per_second / 1e6, 4),
                    "disk_mb_per_second": round(usage.disk_bytes_per_second / 1e6, 4),
                }
            )
    return epochs


async def _epoch(subject: Subject, seconds: float) -> tuple[int, float]:
    options = TrainOptions(local_epochs=1 << 15, until=asyncio.get_running_loop().time() + seconds)
    trained = await subject.trainer.train(subject.trainer.initial_parameters(), subject.shards, options)
    if not trained.num_samples:  # no time for one minibatch, as may be in a quick run on a busy machine
        return await _epoch(subject, 2 * seconds)
    return trained.num_samples, trained.seconds


def _costs() -> dict[str, float | None]:
    """Milliseconds that it takes to read the counters of this machine, and to tell a store and ask it."""
    read, timed = SystemReader(), []
    for _ in range(NUM_TRIES):
        start = time.perf_counter()
        read()
        timed.append(time.perf_counter() - start)
    redis = run_live(_redis_costs()) if is_installed() else None
    return {"collect_ms": 1000 * statistics.fmean(timed), "redis_ms": redis}


async def _redis_costs() -> float:
    figures = Figures(learner="pi1", samples_per_second=1000.0, num_samples=1000, epoch=1)
    with started_redis() as server:
        store, timed = RedisStore(server.url, "run", timeout_seconds=30), []
        try:
            for _ in range(NUM_TRIES + 1):
                start = time.perf_counter()
                await store.publish(figures)
                await store.read()
                timed.append(time.perf_counter() - start)
        finally:
            await store.aclose()
    return 1000 * statistics.fmean(timed[1:])  # the first connects


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the paper says of its figures 9, 10 and 11."""
    sizes = sorted({row["size_mb"] for row in rows})
    found = {f"error, {way}": _error(rows, way) for way in ("forecast", "same_time", "recent", "alone")}
    found["error of the profile, cross-validated"] = statistics.fmean(row["profile_error"] for row in rows)
    for kind in KINDS:
        small, large = (where(rows, job=kind, size_mb=size) for size in (sizes[0], sizes[-1]))
        found[f"{kind}: error, forecast"] = _error(where(rows, job=kind), "forecast")
        found[f"{kind}: slowdown at the largest input"] = _mean(large, "slowdown")
        found[f"{kind}: error, forecast, largest input more than smallest by"] = _error(large, "forecast") - _error(
            small, "forecast"
        )
        for name in ("cpu", "disk_mb_per_second", "collect_ms"):
            found[f"{kind}: {name}, largest input more than smallest by"] = _mean(large, name) - _mean(small, name)
    found["disk_mb_per_second, sort more than wordcount by"] = _difference(rows, "disk_mb_per_second")
    found["collect_ms, sort more than wordcount by"] = _difference(rows, "collect_ms")
    found["collect_ms"] = _mean(rows, "collect_ms")
    if rows[0]["redis_ms"] is not None:
        found["redis_ms"] = _mean(rows, "redis_ms")
    return found


def _error(rows: Sequence[Row], way: str) -> float:
    """The mean error, in per cent."""
    return statistics.fmean(abs(row[f"off_{way}"]) for row in rows)


def _mean(rows: Sequence[Row], name: str) -> float:
    return statistics.fmean(row[name] for row in rows)


def _difference(rows: Sequence[Row], name: str) -> float:
    return _mean(where(rows, job="sort"), name) - _mean(where(rows, job="wordcount"), name)
