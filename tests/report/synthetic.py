"""Runs that never were: the events of a fleet of unequal learners, with the mishaps that a test asks for."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from paceline.report import RunFolder
from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted, WaitingForLearners
from paceline.topologies.parallel.events import (
    DeviceMeasured,
    RoundClosed,
    RoundOpened,
    RoundSpent,
    RunEnded,
    RunStarted,
    ShardsTaken,
    UpdateAccepted,
    UpdateRefused,
)

SHARD_SAMPLES = 32
SHARD_BYTES, MODEL_BYTES = 2_000, 240_000
POWER = {"source": "model", "busy_watts": 2.0, "idle_watts": 0.0, "joules_per_byte": 0.0}
DEADLINE = {"deadline_seconds": 1.0}
JOB = {
    "job": {"rounds": 10, **DEADLINE, "local_epochs": 1, "batch_size": 32, "seed": 7},
    "model": {"name": "digits-cnn"},
    "optimizer": {"name": "sgd", "learning_rate": 0.05},
    "data": {"name": "digits", "shard_size": SHARD_SAMPLES, "placement": "served"},
    "allocation": {"policy": "adaptive-dab", "margin": 1.0},
    "aggregation": {"method": "fedavg"},
}


@dataclass(frozen=True, kw_only=True)
class FakeLearner:
    """A learner that trains so many shards per second, and what happens to it; rounds count from 1."""

    name: str
    shards_per_second: float
    has_phases: bool = True
    joins_in: int = 1
    dies_in: int | None = None
    late_in: tuple[int, ...] = ()
    refused_in: tuple[int, ...] = ()


FLEET = (
    FakeLearner(name="pi-zero", shards_per_second=8, late_in=(7,)),
    FakeLearner(name="pi-4", shards_per_second=16, dies_in=6),
    FakeLearner(name="jetson", shards_per_second=32),
    FakeLearner(name="laptop", shards_per_second=64),
    FakeLearner(name="old-pc", shards_per_second=24, joins_in=4),
    FakeLearner(name="guest", shards_per_second=20, has_phases=False, joins_in=2, refused_in=(3,)),
)


def run_events(fleet=FLEET, *, rounds=10, is_ended=True):
    """Return the events of a run of these learners, in order of time; rounds have a deadline of 1 s."""
    job = {**JOB, "job": {**JOB["job"], "rounds": rounds}}
    sizes = {"first_round": 1, "num_parameters": 61_706, "num_shards": 480}
    chance, accuracy, loss = random.Random(7), None, None
    events = [
        RunStarted(at=0.0, job=job, clock="virtual", metric_names=("accuracy",), **sizes, paceline="0.1.0"),
        WaitingForLearners(at=0.05, round=1, num_ready=0, min_learners=2),
    ]
    for learner in fleet:
        if learner.joins_in == 1:
            events += _join(learner, 0.1 + 0.05 * chance.random(), chance)
    opened_at = max(event.at for event in events) + 0.05
    for number in range(1, rounds + 1):
        present = [one for one in fleet if one.joins_in <= number and (one.dies_in is None or number <= one.dies_in)]
        events.append(RoundOpened(at=opened_at, round=number, **DEADLINE, num_learners=len(present)))
        for learner in fleet:
            if learner.joins_in == number + 1:
                events += _join(learner, opened_at + 0.3, chance)
        works = []
        for learner in present:
            work, happened = _work(learner, number, opened_at, chance)
            works.append(work)
            events += happened
        counted = [work for work in works if work["outcome"] == "accepted"]
        is_complete = len(counted) == len(works)
        seconds = max((work["arrival"] for work in counted), default=0.0) if is_complete else 1.0
        progress = 1 - math.exp(-number / 3)
        accuracy = 0.1 + 0.86 * progress + chance.uniform(-0.01, 0.01)
        loss = 2.3 * (1 - progress) + 0.12 + chance.uniform(0, 0.03)
        num_shards = sum(work["shards"] for work in works)
        num_trained = sum(work["shards"] for work in counted)
        events.append(
            RoundClosed(
                at=opened_at + seconds + 0.02,
                round=number,
                seconds=seconds,
                truancy=seconds - 1,
                num_learners=len(works),
                num_updates=len(counted),
                num_samples=num_trained * SHARD_SAMPLES,
                num_shards=num_shards,
                fulfilment=num_trained / num_shards,
                is_satisfied=is_complete,
                occupancy=sum(min(work["arrival"] or seconds, seconds) for work in works) / (seconds * len(works)),
                late=tuple(work["name"] for work in works if work["outcome"] != "accepted"),
                loss=loss,
                metrics={} if accuracy is None else {"accuracy": accuracy},
            )
        )
        opened_at = events[-1].at + 0.2
    if is_ended:
        events.append(
            RunEnded(at=opened_at, reason="rounds done", rounds=rounds, loss=loss, metrics={"accuracy": accuracy})
        )
    return sorted(events, key=lambda event: event.at)


def _join(learner, at, chance):
    """Return the events of a learner that joins and measures itself."""
    name, speed, seconds = learner.name, learner.shards_per_second, 0.15 + 1.2 / learner.shards_per_second
    if not learner.has_phases:
        return [LearnerJoined(at=at, learner=name)]
    profile = {
        "train": {"per_second": speed * SHARD_SAMPLES, "spread": 0.02 + 0.03 * chance.random()},
        "down": {"per_second": 250_000 * speed, "spread": 0.04},
        "up": {"per_second": 120_000 * speed, "spread": 0.05},
        "latency_seconds": 0.004,
    }
    return [
        LearnerJoined(at=at, learner=name),
        PhaseStarted(at=at + 0.001, learner=name, round=0, phase="benchmark"),
        DeviceMeasured(at=at + seconds, learner=name, profile=profile, seconds=seconds, power=POWER),
        PhaseStarted(at=at + seconds, learner=name, round=0, phase="idle"),
    ]


def _work(learner, number, opened_at, chance):
    """Return what came of one round of one learner, and its events."""
    who = {"learner": learner.name, "round": number}
    start = 0.004 + 0.01 * chance.random()
    download, upload = (0.05 + 0.03 * chance.random() for _ in range(2))
    shards = max(1, int((1.0 - download - upload - start) * 0.95 * learner.shards_per_second))
    train = shards / learner.shards_per_second * chance.uniform(0.97, 1.02) * (1.22 if number in learner.late_in else 1)
    arrival, num_samples = start + download + train + upload, shards * SHARD_SAMPLES
    is_late, at = arrival > 1.0, opened_at + arrival
    events = [ShardsTaken(at=opened_at + start, **who, num_shards=shards, seconds=start)]
    moments = {"download": start, "train": start + download, "upload": arrival - upload, "idle": arrival}
    for phase, seconds in moments.items():
        if learner.has_phases and (learner.dies_in != number or phase == "download"):
            events.append(PhaseStarted(at=opened_at + seconds, **who, phase=phase))
    work = {"name": learner.name, "outcome": "missing", "arrival": None, "shards": shards}
    if learner.dies_in == number:
        return work, [*events, LearnerLeft(at=opened_at + 1.1, learner=learner.name, reason="not heard of for 1.1 s")]
    outcome = "late" if is_late else "refused" if number in learner.refused_in else "accepted"
    if outcome == "accepted":
        events.append(UpdateAccepted(at=at, **who, num_samples=num_samples, seconds=arrival))
    else:
        reason = "came after the deadline" if is_late else "parameter 'fc.weight' is not finite"
        events.append(UpdateRefused(at=at, **who, reason=reason, seconds=arrival, is_late=is_late))
    if learner.has_phases:
        seconds = {"download_seconds": download, "train_seconds": train, "upload_seconds": upload, "cpu_seconds": train}
        counts = {"num_shards": shards, "num_samples": num_samples, "is_accepted": outcome == "accepted"}
        used = {"bytes_sent": MODEL_BYTES, "bytes_received": MODEL_BYTES + SHARD_BYTES * shards, "joules": 2 * train}
        events.append(RoundSpent(at=at + 0.001, **who, **DEADLINE, start_seconds=start, **seconds, **counts, **used))
    return {**work, "outcome": outcome, "arrival": arrival}, events


def record(root, name, settings, events):
    """Keep events as a run in a folder; gives it, closed."""
    with RunFolder.create(root, name, settings) as folder:
        for event in events:
            folder.record(event)
    return folder
