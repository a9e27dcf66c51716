"""Runs that never were: the events of a fleet of unequal learners, with the mishaps that a test asks for."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

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
JOB = {
    "job": {"rounds": 10, "deadline_seconds": 1.0, "local_epochs": 1, "batch_size": 32, "seed": 7},
    "model": {"name": "digits-cnn"},
    "optimizer": {"name": "sgd", "learning_rate": 0.05},
    "data": {"name": "digits", "shard_size": SHARD_SAMPLES, "placement": "served"},
    "allocation": {"policy": "adaptive-dab", "margin": 1.0},
    "aggregation": {"name": "by-samples"},
}


@dataclass(frozen=True, kw_only=True)
class FakeLearner:
    """A learner that trains so many shards per second, and what happens to it; rounds count from 1."""

    name: str
    shards_per_second: float
    is_told: bool = True
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
    FakeLearner(name="guest", shards_per_second=20, is_told=False, joins_in=2, refused_in=(3,)),
)


@dataclass
class _Writer:
    """Collects events and sorts them by time."""

    events: list = field(default_factory=list)

    def add(self, event):
        self.events.append(event)

    def sorted(self):
        return sorted(self.events, key=lambda event: event.at)


def run_events(fleet=FLEET, *, rounds=10, deadline_seconds=1.0, seed=7, is_ended=True, job=None):
    """The events of a run of these learners, in order of time."""
    job = job or {**JOB, "job": {**JOB["job"], "rounds": rounds, "deadline_seconds": deadline_seconds}}
    chance, writer = random.Random(seed), _Writer()
    writer.add(
        RunStarted(
            at=0.0, job=job, clock="virtual", first_round=1, num_parameters=61_706, num_shards=480, paceline="0.1.0"
        )
    )
    writer.add(WaitingForLearners(at=0.05, round=1, num_ready=0, min_learners=2))
    opened_at = 0.1
    for learner in fleet:
        if learner.joins_in == 1:
            opened_at = max(opened_at, _join(writer, learner, at=0.1 + 0.05 * chance.random(), chance=chance))
    opened_at += 0.05
    accuracy = loss = None
    for number in range(1, rounds + 1):
        present = [one for one in fleet if one.joins_in <= number and (one.dies_in is None or number <= one.dies_in)]
        writer.add(
            RoundOpened(at=opened_at, round=number, deadline_seconds=deadline_seconds, num_learners=len(present))
        )
        for learner in fleet:
            if learner.joins_in == number + 1:
                _join(writer, learner, at=opened_at + 0.3 * deadline_seconds, chance=chance)
        works = [_work(writer, one, number, opened_at, deadline_seconds, chance) for one in present]
        counted = [work for work in works if work["outcome"] == "accepted"]
        is_complete = len(counted) == len(works)
        seconds = max((work["arrival"] for work in counted), default=0.0) if is_complete else deadline_seconds
        progress = 1 - math.exp(-number / 3)
        accuracy = 0.1 + 0.86 * progress + chance.uniform(-0.01, 0.01)
        loss = 2.3 * (1 - progress) + 0.12 + chance.uniform(0, 0.03)
        closed_at = opened_at + seconds + 0.02
        writer.add(
            RoundClosed(
                at=closed_at,
                round=number,
                seconds=seconds,
                truancy=seconds / deadline_seconds - 1,
                num_learners=len(works),
                num_updates=len(counted),
                num_samples=sum(work["samples"] for work in counted),
                num_shards=sum(work["shards"] for work in works),
                fulfilment=sum(work["shards"] for work in counted) / sum(work["shards"] for work in works),
                is_satisfied=is_complete,
                occupancy=sum(min(work["arrival"] or seconds, seconds) for work in works) / (seconds * len(works)),
                late=tuple(work["name"] for work in works if work["outcome"] != "accepted"),
                loss=loss,
                accuracy=accuracy,
            )
        )
        opened_at = closed_at + 0.2 * deadline_seconds
    if is_ended:
        writer.add(RunEnded(at=opened_at, reason="rounds done", rounds=rounds, loss=loss, accuracy=accuracy))
    return writer.sorted()


def _join(writer, learner, *, at, chance):
    """Join and benchmark; returns when the learner is ready."""
    writer.add(LearnerJoined(at=at, learner=learner.name))
    if not learner.is_told:
        return at
    writer.add(PhaseStarted(at=at + 0.001, learner=learner.name, round=0, phase="benchmark"))
    seconds = 0.15 + 1.2 / learner.shards_per_second
    profile = {
        "train": {"per_second": learner.shards_per_second * SHARD_SAMPLES, "spread": 0.02 + 0.03 * chance.random()},
        "down": {"per_second": 250_000 * learner.shards_per_second, "spread": 0.04},
        "up": {"per_second": 120_000 * learner.shards_per_second, "spread": 0.05},
        "latency_seconds": 0.004,
    }
    writer.add(DeviceMeasured(at=at + seconds, learner=learner.name, profile=profile, seconds=seconds, power=POWER))
    writer.add(PhaseStarted(at=at + seconds, learner=learner.name, round=0, phase="idle"))
    return at + seconds


def _work(writer, learner, number, opened_at, deadline_seconds, chance):
    """One round of one learner."""
    name, told = learner.name, learner.is_told
    start = (0.004 + 0.01 * chance.random()) * deadline_seconds
    download, upload = ((0.05 + 0.03 * chance.random()) * deadline_seconds for _ in range(2))
    shards = max(
        1, int((deadline_seconds - download - upload - start) * 0.95 * learner.shards_per_second / deadline_seconds)
    )
    train = shards / learner.shards_per_second * deadline_seconds * chance.uniform(0.97, 1.02)
    if number in learner.late_in:
        train *= 1.22
    arrival = start + download + train + upload
    is_late = arrival > deadline_seconds
    writer.add(ShardsTaken(at=opened_at + start, round=number, learner=name, num_shards=shards, seconds=start))
    if told:
        moments = {"download": start, "train": start + download, "upload": arrival - upload, "idle": arrival}
        for phase, seconds in moments.items():
            if learner.dies_in != number or phase == "download":
                writer.add(PhaseStarted(at=opened_at + seconds, learner=name, round=number, phase=phase))
    if learner.dies_in == number:
        gone_at = opened_at + deadline_seconds * 1.1
        writer.add(LearnerLeft(at=gone_at, learner=name, reason="not heard of for 1.1 s"))
        return {"name": name, "outcome": "missing", "arrival": None, "shards": shards, "samples": 0}
    samples = shards * SHARD_SAMPLES
    outcome = "late" if is_late else "refused" if number in learner.refused_in else "accepted"
    at = opened_at + arrival
    if outcome == "accepted":
        writer.add(UpdateAccepted(at=at, round=number, learner=name, num_samples=samples, seconds=arrival))
    else:
        reason = "came after the deadline" if is_late else "parameter 'fc.weight' is not finite"
        writer.add(UpdateRefused(at=at, round=number, learner=name, reason=reason, seconds=arrival, is_late=is_late))
    if told:
        writer.add(
            RoundSpent(
                at=at + 0.001,
                learner=name,
                round=number,
                deadline_seconds=deadline_seconds,
                start_seconds=start,
                num_shards=shards,
                num_samples=samples,
                download_seconds=download,
                train_seconds=train,
                upload_seconds=upload,
                is_accepted=outcome == "accepted",
                bytes_sent=MODEL_BYTES,
                bytes_received=MODEL_BYTES + SHARD_BYTES * shards,
                cpu_seconds=train,
                joules=2 * train,
            )
        )
    return {"name": name, "outcome": outcome, "arrival": arrival, "shards": shards, "samples": samples}
