"""Time, loss and accuracy of five rounds on four Jetsons over the deadline, by policy; on virtual time."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paceline import Job, VirtualDevice
from paceline.fleets.fleet_files import load_fleet
from paceline.learning.datasets import DataSpec
from paceline.topologies.parallel.events import RoundClosed, ShardsTaken, UpdateAccepted
from papers.dab import FROM_0_TO_1, MNIST, OVERTIME, TESTBED, job_of, slowed
from reproduction import About, Row
from reproduction.rows import where
from reproduction.trials import Scores, Trial, assess, simulate, write_part

ABOUT = About(
    figure="Mays, Fig. 3.6 to 3.8",
    claim="DAB follows the deadline, at a small loss of accuracy where it is tight; CSA is far too late.",
    duration="35 minutes",
    num_seeds=10,
)
FLEET = TESTBED / "four-jetsons.toml"
SPEEDUP = 1.5  # of the links in that file
SAMPLES_PER_SECOND = 497.0  # the one constant that is chosen: so that CSA takes the 172 s of the thesis
ROUNDS, QUICK_ROUNDS = 5, 2
SAMPLES = 60_000
DEADLINES, QUICK_DEADLINES = (105, 120, 135, 150), (105, 150)  # seconds, of all rounds
LEARNING_SEEDS = 3
LEARNING = (("dab", 105), ("csa", 105), ("adaptive-dab", 105), ("dab", 150), ("csa", 150))
QUICK_LEARNING = LEARNING[:2]


class Size(NamedTuple):
    """How many times fewer samples there are, on devices that are as many times slower; and how they are used."""

    scale: int = 1
    batch_size: int = 32
    num_test_samples: int | None = None


TIME = Size()
LEARN = Size(scale=5, batch_size=6)  # about as many steps as with all samples
QUICK = Size(scale=100, num_test_samples=300)


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """A row per deadline and policy for the time, and one more where models are trained for the accuracy, too."""
    rounds = QUICK_ROUNDS if is_quick else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        yield from _time(QUICK if is_quick else TIME, Path(folder), seed, rounds)
        if seed < LEARNING_SEEDS:
            yield from _learn(QUICK if is_quick else LEARN, Path(folder), seed, rounds)


def _time(size: Size, folder: Path, seed: int, rounds: int) -> Iterator[Row]:
    data, devices = _of_size(size, folder)
    for deadline, policy in itertools.product(QUICK_DEADLINES if size is QUICK else DEADLINES, OVERTIME):
        job = _job(policy, deadline, data, batch_size=size.batch_size, seed=seed, rounds=rounds)
        yield _row("time", policy, deadline, simulate(job, devices, is_time_only=True))


def _learn(size: Size, folder: Path, seed: int, rounds: int) -> Iterator[Row]:
    data, devices = _of_size(size, folder)
    learned: dict[Any, Scores] = {}
    for policy, deadline in QUICK_LEARNING if size is QUICK else LEARNING:
        job = _job(policy, deadline, data, batch_size=size.batch_size, seed=seed, rounds=rounds)
        trial = simulate(job, devices, is_time_only=True)
        # The same shards in the same order teach the same: CSA, which hands out all, is trained once.
        shares = tuple((taken.round, taken.learner, taken.num_shards) for taken in trial.events_of(ShardsTaken))
        updates = sorted((told.round, told.learner, told.num_samples) for told in trial.events_of(UpdateAccepted))
        work = (shares, tuple(updates))
        if work not in learned:
            last = simulate(job, devices, normalisation=FROM_0_TO_1).states[-1:]
            (learned[work],) = assess(job, last)
        yield _row("learning", policy, deadline, trial, learned[work])


def _of_size(size: Size, folder: Path) -> tuple[DataSpec, list[VirtualDevice]]:
    data = MNIST
    if size.scale > 1:
        path = folder / f"part-{size.scale}.npz"
        data = write_part(
            MNIST, path, num_samples=SAMPLES // size.scale, num_test_samples=size.num_test_samples, seed=size.scale
        )
    speed = SAMPLES_PER_SECOND / size.scale
    devices = load_fleet(FLEET, VirtualDevice)
    return data, [slowed(device, SPEEDUP, samples_per_second=speed, cpu_share=1.0) for device in devices]


def _job(policy: str, deadline: int, data: DataSpec, **rules: Any) -> Job:
    return job_of(policy, "deadline-net", data, deadline_seconds=deadline / ROUNDS, min_learners=4, **rules)


def _row(part: str, policy: str, deadline: int, trial: Trial, scores: Scores | None = None) -> Row:
    closed = trial.events_of(RoundClosed)
    seconds = sum(told.seconds for told in closed)
    wanted = deadline / ROUNDS
    updates = trial.events_of(UpdateAccepted)
    num_late = sum(update.seconds > wanted for update in updates) + sum(len(told.late) for told in closed)
    return {
        "part": part,
        "policy": policy,
        "deadline": deadline,
        "seconds": round(seconds * ROUNDS / len(closed), 3),
        "truancy": round(100 * (seconds / (wanted * len(closed)) - 1), 3),
        "late_updates": round(100 * num_late / sum(told.num_learners for told in closed), 3),
        "shards": sum(told.num_shards for told in closed) / len(closed),
        "samples": sum(told.num_samples for told in closed) / len(closed),
        "loss": scores and round(scores.loss, 5),
        "accuracy": scores and round(100 * scores.confidence, 3),  # as the author computes it
        "right": scores and round(100 * scores.accuracy, 3),
    }


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the thesis' text says of the figures, and the same of ours."""
    timed = {(row["policy"], row["deadline"]): row for row in where(rows, part="time")}
    longer = [
        100 * (row["seconds"] / timed["dab", deadline]["seconds"] - 1)
        for (policy, deadline), row in timed.items()
        if policy == "csa"
    ]
    found = {
        "csa: longer than dab, at most": max(longer),
        "samples of adaptive-dab for one of dab, 105 s": timed["adaptive-dab", 105]["samples"]
        / timed["dab", 105]["samples"],
    }
    for policy, deadline in itertools.product(OVERTIME, (105, 150)):
        row = timed[policy, deadline]
        found[f"{policy}: time, {deadline} s"] = row["seconds"]
        found[f"{policy}: truancy, {deadline} s"] = row["truancy"]
        found[f"{policy}: late updates, {deadline} s"] = row["late_updates"]
    return found | _learning({(row["policy"], row["deadline"]): row for row in where(rows, part="learning")})


def _learning(rows: dict[tuple[str, int], Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    for (policy, deadline), row in rows.items():
        found[f"{policy}: accuracy, {deadline} s"] = row["accuracy"]
        found[f"{policy}: right answers, {deadline} s"] = row["right"]
        found[f"{policy}: loss, {deadline} s"] = row["loss"]
        if policy != "dab":
            other = rows["dab", deadline]
            found[f"accuracy, dab above {policy}, {deadline} s"] = other["accuracy"] - row["accuracy"]
            found[f"loss, dab above {policy}, {deadline} s"] = other["loss"] - row["loss"]
    return found
