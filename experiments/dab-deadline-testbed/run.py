"""One deadline of dab-deadline on an emulated testbed: real processes, real time, limited processors and links."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from paceline import Job, allocation, config
from paceline.fleets.testbed import TestbedFleet
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.tasks import OptimizerSpec
from paceline.reproduction import About, Row
from paceline.reproduction.rows import where
from paceline.reproduction.trials import Trial, play, write_part
from paceline.topologies.parallel.events import RoundClosed, UpdateAccepted

ABOUT = About(
    figure="Mays, Fig. 3.6 and 3.7, at 105 s",
    claim="DAB follows the deadline; CSA is far too late.",
    duration="6 minutes",
    num_seeds=3,
    num_quick_seeds=1,
)
FLEET = Path(__file__).parents[2] / "examples" / "testbed" / "four-jetsons.toml"
MNIST = DataSpec(name="mnist", shard_size=500)
SAMPLES, ROUNDS = 3_000, 5
CSA_DEADLINE_SECONDS, CSA_OVERTIME = 1.5, 50.0  # too short to do anything but to hand out all, and to wait for it
DEADLINE_OF_CSA = 105 / 172  # how long the thesis gives, for one second that CSA takes
OVERTIME = {"dab": 1.0, "adaptive-dab": 0.0}
QUICK_SAMPLES, QUICK_ROUNDS, QUICK_DEVICES, QUICK_DEADLINE_SECONDS = 600, 2, 2, 1.5


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """A row per policy and round. CSA goes first: the deadline of the others follows from the time that it takes."""
    (jetson,) = config.load_testbed(FLEET)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.npz"
        if is_quick:
            fleet = TestbedFleet([msgspec.structs.replace(jetson, count=QUICK_DEVICES)])
            data = write_part(MNIST, path, num_samples=QUICK_SAMPLES, num_test_samples=100)
            yield from _play("dab", QUICK_DEADLINE_SECONDS, fleet, data, seed=seed, rounds=QUICK_ROUNDS)
            return
        fleet = TestbedFleet([jetson])
        data = write_part(MNIST, path, num_samples=SAMPLES, num_test_samples=100)
        csa = _job("csa", CSA_DEADLINE_SECONDS, CSA_OVERTIME, data, seed=seed, rounds=ROUNDS, min_learners=jetson.count)
        trial = play(csa, fleet)
        deadline_seconds = DEADLINE_OF_CSA * statistics.fmean(closed.seconds for closed in trial.told(RoundClosed))
        yield from _rows("csa", trial, deadline_seconds)
        for policy in OVERTIME:
            yield from _play(policy, deadline_seconds, fleet, data, seed=seed, rounds=ROUNDS)


def _play(
    policy: str, deadline_seconds: float, fleet: TestbedFleet, data: DataSpec, *, seed: int, rounds: int
) -> Iterator[Row]:
    count = len(fleet.devices)
    job = _job(policy, deadline_seconds, OVERTIME[policy], data, seed=seed, rounds=rounds, min_learners=count)
    return _rows(policy, play(job, fleet), deadline_seconds)


def _job(
    policy: str, deadline_seconds: float, overtime: float, data: DataSpec, *, seed: int, rounds: int, min_learners: int
) -> Job:
    return Job(
        deadline_seconds=deadline_seconds,
        overtime=overtime,
        rounds=rounds,
        local_epochs=1,
        batch_size=32,
        seed=seed,
        min_learners=min_learners,
        model=ModelSpec(name="deadline-net", loss="cross-entropy-of-softmax"),
        optimizer=OptimizerSpec(name="SGD", options={"lr": 0.1}),
        data=data,
        allocation=allocation.from_config({"policy": policy}),
    )


def _rows(policy: str, trial: Trial, deadline_seconds: float) -> Iterator[Row]:
    updates = trial.told(UpdateAccepted)
    for closed in trial.told(RoundClosed):
        late = [update for update in updates if update.round == closed.round and update.seconds > deadline_seconds]
        yield {
            "policy": policy,
            "round": closed.round,
            "deadline": round(deadline_seconds, 3),
            "seconds": round(closed.seconds, 3),
            "learners": closed.num_learners,
            "late": len(late) + len(closed.late),
            "shards": closed.num_shards,
            "samples": closed.num_samples,
        }


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the thesis' text says of the figures, and the same of ours."""
    found: dict[str, float] = {}
    for policy in ("csa", *OVERTIME):
        own = where(rows, policy=policy)
        if own:
            deadline, seconds = sum(row["deadline"] for row in own), sum(row["seconds"] for row in own)
            found[f"{policy}: truancy"] = 100 * (seconds / deadline - 1)
            found[f"{policy}: late updates"] = (
                100 * sum(row["late"] for row in own) / sum(row["learners"] for row in own)
            )
    return found
