"""Two jobs on four processes of this machine, whose stressors are real; in real time, by scheme."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from paceline.devices.states import DeviceState
from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.parallel.events import RoundClosed
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from papers import AVERAGE
from papers.med.playing import job_row
from papers.med.setting import HEAT, draw_distribution, draw_price, policy_of
from reproduction import About, Row
from reproduction.rows import where
from reproduction.trials import play_pool

ABOUT = About(
    figure="Mays, Fig. 4.1, in small", claim="MED is faster than MMTT-Uncertain.", duration="8 minutes", num_seeds=3
)
SCHEMES = ("med", "mmtt-uncertain", "med-held-back")
MODELS = {"wide": "three-nn", "small": "two-nn"}  # by job
NUM_DEVICES, LINK_MBIT, LATENCY_MS = 4, 50.0, 2.0
ROUNDS, LOCAL_EPOCHS, DEADLINE_SECONDS = 5, 10, 20.0
QUICK_SCHEMES, QUICK_JOBS, QUICK_DEVICES, QUICK_ROUNDS, QUICK_LOCAL_EPOCHS = ("med-held-back",), ("small",), 2, 2, 1
BUDGET = 100.0  # more than 60 shards can cost: prices are at most 1.5
COLUMNS = {"seconds": "time", "satisfaction": "satisfaction", "fulfilment": "fulfilment", "occupancy": "occupancy"}


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """A row per scheme and job. Schemes take turns in going first: the machine may be slower at times."""
    schemes = QUICK_SCHEMES if is_quick else (*SCHEMES[seed % 3 :], *SCHEMES[: seed % 3])
    devices = [_device(seed, number) for number in range(QUICK_DEVICES if is_quick else NUM_DEVICES)]
    rounds, local_epochs = (QUICK_ROUNDS, QUICK_LOCAL_EPOCHS) if is_quick else (ROUNDS, LOCAL_EPOCHS)
    jobs = [_job(name, rounds, local_epochs, seed) for name in (QUICK_JOBS if is_quick else MODELS)]
    for turn, scheme in enumerate(schemes):
        pool = Pool(allocation=policy_of(scheme, BUDGET), min_learners=len(devices), moves_learners=False, seed=seed)
        trial = play_pool(pool, jobs, LocalFleet(devices))
        for job in trial.jobs:
            accuracy = trial.jobs[job].events_of(RoundClosed)[-1].metrics.get("accuracy")
            yield {"scheme": scheme, "turn": turn, **job_row(trial, job), "accuracy": 100 * (accuracy or 0.0)}


def _device(seed: int, number: int) -> LocalDevice:
    chance = random.Random(f"live device {number} of trial {seed}")
    price, probabilities = draw_price(chance), draw_distribution(3, HEAT, chance)
    states = zip(("idle", "training", "downloading"), probabilities, strict=True)
    return LocalDevice(
        name=f"device-{number}",
        down_mbit=LINK_MBIT,
        up_mbit=LINK_MBIT,
        latency_ms=LATENCY_MS,
        price=price,
        states=tuple(DeviceState(name=name, probability=probability) for name, probability in states),
    )


def _job(name: str, rounds: int, local_epochs: int, seed: int) -> PreparedJob:
    return prepare_job(
        Job(
            name=name,
            deadline_seconds=DEADLINE_SECONDS,
            rounds=rounds,
            local_epochs=local_epochs,
            batch_size=16,
            seed=seed,
            benchmark_shards=2,
            model=ModelSpec(name=MODELS[name]),
            optimizer=OptimizerSpec(name="Adam", options={"lr": 1e-3}),
            aggregation=AVERAGE,
            data=DataSpec(name="digits", shard_size=48),
        )
    )


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """Means over the jobs, and how much longer than MED the others take."""
    found: dict[str, float] = {}
    for scheme in SCHEMES:
        own = where(rows, scheme=scheme)
        if own:
            for column, name in (*COLUMNS.items(), ("accuracy", "accuracy")):
                found[f"{scheme}: {name}"] = sum(row[column] for row in own) / len(own)
            found[f"{scheme}: updates that came too late"] = sum(row["late"] for row in own)
    if len(found) > len(COLUMNS) + 2:
        for other in ("mmtt-uncertain", "med-held-back"):
            found[f"time, {other} above med"] = 100 * (found[f"{other}: time"] / found["med: time"] - 1)
    return found
