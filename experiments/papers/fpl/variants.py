"""Ways to spread a model that are ours: smaller junctions, fewer bits, other cuts; and what each of them learns.

What is learned does not depend on how fast devices and links are, since no node is ever ahead. So each variant is
trained once, and what its epochs take is found by short runs on each fleet.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.datasets import DataSpec
from paceline.learning.junction import JunctionSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.split.events import TRUNK, CutChosen, NodeSpent, SplitEpochEnded
from paceline.topologies.split.jobs import SplitJob
from paceline.topologies.split.prepared import PreparedSplit, prepare_split
from paceline.topologies.split.topology import SplitPlan
from papers.fpl.setting import NUM_SOURCES, PATIENCE_SECONDS, shortened
from reproduction.keeping import kept
from reproduction.rows import Row
from reproduction.trials import checksum, drawn_part, play

RANK, GROUPS = 64, 16
LOW_RANK = JunctionSpec(form="low-rank", rank=RANK)
_FEW_STEPS, _MORE_STEPS = 2, 4  # of an epoch: what one takes is the difference

FULL = "full"
LEAN = f"low-rank {RANK}, 4 bits"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    FULL: {"cut": "f2"},
    f"low-rank {RANK}": {"cut": "f2", "junction": LOW_RANK},
    f"grouped {GROUPS}": {"cut": "f2", "junction": JunctionSpec(form="grouped", groups=GROUPS)},
    "full, 4 bits": {"cut": "f2", "bits": 4},
    LEAN: {"cut": "f2", "junction": LOW_RANK, "bits": 4},
}
"""Rules of a job by name; all junctions begin as the mean of the branches."""

CUTS = ("c2", "f1", "f2")
"""Before which the network is cut, with low-rank junctions."""


class Size(NamedTuple):
    """How much is trained."""

    num_samples: int
    num_test_samples: int
    epochs: int
    batch_size: int = 64


FULL_SIZE, QUICK_SIZE = Size(1024, 1000, 10), Size(32, 16, 2, 8)


def cut_rules(cut: str) -> dict[str, Any]:
    """Return the rules of a low-rank junction before a layer, or where it is fastest for ``auto``."""
    return {"cut": cut, "junction": LOW_RANK}


def prepared(rules: Mapping[str, Any], size: Size, seed: int) -> PreparedSplit:
    """Prepare a job by these rules, with a part of EMNIST that is drawn anew for each seed."""
    return _prepared(tuple(sorted(rules.items())), size, seed)


@functools.lru_cache(maxsize=16)
def _prepared(rules: tuple[tuple[str, Any], ...], size: Size, seed: int) -> PreparedSplit:
    job = SplitJob(
        epochs=size.epochs,
        batch_size=size.batch_size,
        sources=NUM_SOURCES,
        patience_seconds=PATIENCE_SECONDS,
        backup_epochs=0,
        seed=seed,
        optimizer=OptimizerSpec(name="Adam", options={"lr": 0.001}),
        **dict(rules),
    )
    with drawn_part(
        DataSpec(name="emnist"), num_samples=size.num_samples, num_test_samples=size.num_test_samples, seed=seed
    ) as data:
        return prepare_split(msgspec.structs.replace(job, data=data))


def num_junction(job: PreparedSplit) -> int:
    """Count the junction's parameters."""
    names = [f"source {number}" for number in range(NUM_SOURCES)]
    return job.num_parameters(job.cuts[0], names)["junction"]


def learned(rules: Mapping[str, Any], size: Size, seed: int, *, is_kept: bool) -> list[Row]:
    """Train, and return a row of accuracy and bytes for each epoch; kept for other experiments that need the same."""

    def make() -> list[Row]:
        return _learned(prepared(rules, size, seed))

    if not is_kept:
        return make()
    described = msgspec.json.encode(dict(rules), order="deterministic")
    key = ("fpl variants", described, tuple(size), seed, checksum(prepared(rules, size, seed).dataset))
    return kept(key, (__file__,), make)


def _learned(job: PreparedSplit) -> list[Row]:
    devices = [VirtualDevice(name="source", count=NUM_SOURCES, samples_per_second=1000.0)]
    trial = play(SplitPlan(job), VirtualFleet(devices))
    rows: list[Row] = []
    for ended in trial.events_of(SplitEpochEnded):
        scores = ended.scores
        assert scores is not None
        spent = [e for e in trial.events_of(NodeSpent) if e.epoch == ended.epoch and e.learner != TRUNK]
        rows.append(
            {
                "epoch": ended.epoch,
                "loss": round(scores.loss, 6),
                "accuracy": round(100 * scores.metrics["accuracy"], 4),
                "num_bytes": sum(event.bytes_sent + event.bytes_received for event in spent),
            }
        )
    return rows


class Timed(NamedTuple):
    """A short run: where the model was cut, and how long an epoch of all samples takes."""

    cut: str
    epoch_seconds: float


def timed(rules: Mapping[str, Any], devices: Sequence[VirtualDevice], size: Size, seed: int) -> Timed:
    """Time an epoch on a fleet, by epochs of few steps.

    An epoch ends for the trunk with its last answer, so that the way back of its last step is not in it: with few
    steps, that would be a good part.
    """
    job = prepared(rules, size, seed)
    (cut, few), (_, more) = (_short(job, devices, steps) for steps in (_FEW_STEPS, _MORE_STEPS))
    return Timed(cut, (more - few) / (_MORE_STEPS - _FEW_STEPS) * size.num_samples / job.job.batch_size)


def _short(job: PreparedSplit, devices: Sequence[VirtualDevice], num_steps: int) -> tuple[str, float]:
    """Where the model is cut, and the seconds of an epoch of so few steps."""
    short = replace(shortened(job, num_steps * job.job.batch_size), job=msgspec.structs.replace(job.job, epochs=1))
    trial = play(SplitPlan(short), VirtualFleet(devices))
    chosen = [event.cut for event in trial.events_of(CutChosen)]
    (ended,) = trial.events_of(SplitEpochEnded)
    return (chosen[0] if chosen else job.job.cut), ended.seconds
