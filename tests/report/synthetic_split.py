"""A split run that never was: cameras of unequal speed, one that is masked, one that joins late, one that leaves."""

from __future__ import annotations

import msgspec

from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted, WaitingForLearners
from paceline.topologies.split.events import (
    CutChosen,
    JunctionChanged,
    NodeSpent,
    NodeStarted,
    SourceBack,
    SourceMasked,
    SplitEnded,
    SplitEpochEnded,
    SplitStarted,
)
from tests.report.synthetic import POWER, record

JOB = {
    "split": {"scheme": "fpl", "epochs": 8, "batch_size": 64, "seed": 5, "sources": 3},
    "junction": {"form": "dense"},
    "model": {"name": "leaf-cnn"},
    "data": {"name": "emnist"},
    "view": [{"name": "blur"}, {"name": "erase"}, {"name": "flip"}],
}
BRANCH, JUNCTION_PER_SOURCE, TRUNK = 52_096, 1_000_000, 127_038
EPOCH_SECONDS, TEST_SECONDS = 10.0, 1.0
NUM_STEPS = 90
BYTES = 5_000_000
"""That a source sends and receives in an epoch, each."""


class Camera(msgspec.Struct, frozen=True, kw_only=True):
    """A source that never was.

    Attributes:
        compute_seconds: that it works in an epoch.
        first: epoch.
        last: the one before which it leaves, if it does.
        masked: the epoch in whose second half it is missing, if it is.
    """

    name: str
    compute_seconds: float
    first: int = 1
    last: int | None = None
    masked: int | None = None


FLEET = (
    Camera(name="cam-1", compute_seconds=9.0),
    Camera(name="cam-2", compute_seconds=4.0, masked=3),
    Camera(name="cam-3", compute_seconds=6.0, last=6),
    Camera(name="late", compute_seconds=2.0, first=4),
)


def accuracy_after(epoch):
    return round(0.9 - 0.6 * 0.6**epoch, 4)


def loss_after(epoch):
    """On the test data: the lowest after epoch 6."""
    return round(0.5 + 0.02 * (epoch - 6) ** 2, 4)


def start_of(epoch):
    return 5.0 + (EPOCH_SECONDS + TEST_SECONDS) * (epoch - 1)


def there_in(fleet, epoch):
    return [one for one in fleet if one.first <= epoch and (one.last is None or epoch < one.last)]


def spent(name, epoch, at, compute_seconds, num_bytes, *, watts):
    seconds = EPOCH_SECONDS + TEST_SECONDS
    busy = {"seconds": seconds, "compute_seconds": compute_seconds, "wait_seconds": seconds - compute_seconds}
    used = {"bytes_sent": num_bytes, "bytes_received": num_bytes, "joules": watts * compute_seconds}
    return NodeSpent(at=at, learner=name, epoch=epoch, **busy, cpu_seconds=compute_seconds, **used)


def epoch_of(fleet, epoch):
    """An epoch of 10 s and its test of 1 s; the trunk computes for 3 s of them."""
    start, there = start_of(epoch), there_in(fleet, epoch)
    end = start + EPOCH_SECONDS + TEST_SECONDS
    events = [PhaseStarted(at=start, learner=one.name, round=epoch, phase="forward") for one in there]
    num_masked = 0
    for one in there:
        if one.masked == epoch:
            num_masked += NUM_STEPS // 2
            half = start + EPOCH_SECONDS / 2
            reason = "nothing came within 0.5 s"
            events.append(SourceMasked(at=half, learner=one.name, epoch=epoch, step=NUM_STEPS // 2 + 1, reason=reason))
            events.append(SourceBack(at=end, learner=one.name, epoch=epoch + 1, step=1))
    counts = {"num_steps": NUM_STEPS, "num_samples": 64 * NUM_STEPS, "num_masked": num_masked}
    losses = {
        "train_loss": round(0.9 * 0.8**epoch, 4),
        "loss": loss_after(epoch),
        "metrics": {"accuracy": accuracy_after(epoch)},
    }
    times = {"num_sources": len(there), "seconds": EPOCH_SECONDS, "test_seconds": TEST_SECONDS}
    events.append(SplitEpochEnded(at=end, epoch=epoch, **counts, **times, **losses))
    events += [spent(one.name, epoch, end, one.compute_seconds, BYTES, watts=5.0) for one in there]
    return [*events, spent("trunk", epoch, end, 3.0, BYTES * len(there), watts=40.0)]


def split_events(fleet=FLEET, epochs=8):
    """Epochs of 11 s from 5 s on; epoch 6 is the best."""
    first = [one for one in fleet if one.first == 1]
    sizes = {"branch": BRANCH, "junction": JUNCTION_PER_SOURCE * len(first), "trunk": TRUNK}
    events = [
        SplitStarted(
            at=0.0, job=JOB, clock="virtual", metric_names=("accuracy",), num_parameters=sizes, paceline="0.3.0"
        ),
        WaitingForLearners(at=0.5, round=0, num_ready=0, min_learners=len(first)),
        CutChosen(at=4.0, cut="f2", expected_seconds={"f1": 14.5, "f2": 10.2, "c2": 45.0}, num_parameters=sizes),
    ]
    for one in fleet:
        at = 1.0 if one.first == 1 else start_of(one.first)
        events.append(LearnerJoined(at=at, learner=one.name))
        events.append(NodeStarted(at=at, learner=one.name, number=len(events), power=POWER))
        if one.last is not None:
            events.append(LearnerLeft(at=start_of(one.last), learner=one.name, reason="it said goodbye"))
    for epoch in range(1, epochs + 1):
        there = tuple(one.name for one in there_in(fleet, epoch))
        if epoch > 1 and there != tuple(one.name for one in there_in(fleet, epoch - 1)):
            size = JUNCTION_PER_SOURCE * len(there)
            events.append(JunctionChanged(at=start_of(epoch), epoch=epoch, sources=there, num_parameters=size))
        events += epoch_of(fleet, epoch)
    result = {"loss": loss_after(min(epochs, 6)), "metrics": {"accuracy": accuracy_after(min(epochs, 6))}}
    events.append(SplitEnded(at=start_of(epochs + 1), reason="no improvement", epochs=epochs, **result))
    return sorted(events, key=lambda event: event.at)


def record_split(root):
    """Keep a split run in a folder; gives it, closed."""
    return record(root, "cameras", JOB, split_events())
