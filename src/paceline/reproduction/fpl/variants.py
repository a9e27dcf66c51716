"""Ways to spread a model that are ours: smaller junctions, fewer bits, other cuts; and what each of them learns.

What is learned does not depend on how fast devices and links are, since no node is ever ahead. So each variant is
trained once, and what its epochs take is found by short runs on each fleet.
"""

from __future__ import annotations

import functools
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from paceline.events import Event
from paceline.fleets.base import SplitLaunch
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual_nodes import VirtualNodes
from paceline.learning.datasets import DataSpec
from paceline.learning.junction import JunctionSpec
from paceline.learning.tasks import OptimizerSpec
from paceline.reproduction.keeping import kept
from paceline.reproduction.rows import Row
from paceline.reproduction.trials import write_part
from paceline.topologies.split import SplitJob, SplitPlan, make_plan
from paceline.topologies.split.events import CutChosen, NodeSpent, SplitEpochEnded

NUM_SOURCES = 5
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
    """A low-rank junction before a layer, or where it is fastest for ``auto``."""
    return {"cut": cut, "junction": LOW_RANK}


def plan_of(rules: Mapping[str, Any], size: Size, seed: int) -> SplitPlan:
    """A job by these rules made ready, with a part of EMNIST that is drawn anew for each seed."""
    return _plan(tuple(sorted(rules.items())), size, seed)


@functools.lru_cache(maxsize=16)
def _plan(rules: tuple[tuple[str, Any], ...], size: Size, seed: int) -> SplitPlan:
    job = SplitJob(
        epochs=size.epochs,
        batch_size=size.batch_size,
        sources=NUM_SOURCES,
        patience_seconds=3600.0,  # a source is waited for, however slow it is
        backup_epochs=0,
        seed=seed,
        optimizer=OptimizerSpec(name="Adam", options={"lr": 0.001}),
        **dict(rules),
    )
    with tempfile.TemporaryDirectory() as folder:
        data = write_part(
            DataSpec(name="emnist"),
            Path(folder) / "part.npz",
            num_samples=size.num_samples,
            num_test_samples=size.num_test_samples,
            seed=seed,
        )
        return make_plan(msgspec.structs.replace(job, data=data))


def num_junction(plan: SplitPlan) -> int:
    """Parameters of the junction."""
    names = [f"source {number}" for number in range(NUM_SOURCES)]
    return plan.num_parameters(plan.cuts[0], names)["junction"]


def learned(rules: Mapping[str, Any], size: Size, seed: int, *, is_kept: bool) -> list[Row]:
    """Accuracy and bytes of each epoch; kept for other experiments that need the same."""

    def make() -> list[Row]:
        return _learned(plan_of(rules, size, seed))

    if not is_kept:
        return make()
    data = plan_of(rules, size, seed).dataset
    described = msgspec.json.encode(dict(rules), order="deterministic")
    key = ("fpl variants", described, tuple(size), seed, zlib.crc32(data.x_train.tobytes() + data.x_test.tobytes()))
    return kept(key, (__file__,), make)


def _learned(plan: SplitPlan) -> list[Row]:
    events = _play(plan, [VirtualDevice(name="source", count=NUM_SOURCES, samples_per_second=1000.0)])
    rows: list[Row] = []
    for ended in _told(events, SplitEpochEnded):
        spent = [event for event in _told(events, NodeSpent) if event.epoch == ended.epoch and event.learner != "trunk"]
        rows.append(
            {
                "epoch": ended.epoch,
                "loss": round(ended.loss, 6),
                "accuracy": round(100 * ended.accuracy, 4),
                "num_bytes": sum(event.bytes_sent + event.bytes_received for event in spent),
            }
        )
    return rows


class Timed(NamedTuple):
    """A short run: where the model was cut, and how long an epoch of all samples takes."""

    cut: str
    epoch_seconds: float


def timed(rules: Mapping[str, Any], devices: Sequence[VirtualDevice], size: Size, seed: int) -> Timed:
    """What an epoch takes on a fleet, by epochs of few steps.

    An epoch ends for the trunk with its last answer, so that the way back of its last step is not in it: with few
    steps, that would be a good part.
    """
    plan = plan_of(rules, size, seed)
    (cut, few), (_, more) = (_short(plan, devices, steps) for steps in (_FEW_STEPS, _MORE_STEPS))
    return Timed(cut, (more - few) / (_MORE_STEPS - _FEW_STEPS) * size.num_samples / plan.job.batch_size)


def _short(plan: SplitPlan, devices: Sequence[VirtualDevice], num_steps: int) -> tuple[str, float]:
    """Where the model is cut, and the seconds of an epoch of so few steps."""
    data, num_samples = plan.dataset, num_steps * plan.job.batch_size
    part = replace(
        data,
        x_train=data.x_train[:num_samples],
        y_train=data.y_train[:num_samples],
        x_test=data.x_test[:1],
        y_test=data.y_test[:1],
    )
    short = replace(plan, dataset=part, job=msgspec.structs.replace(plan.job, epochs=1))
    events = _play(short, devices)
    chosen = [event.cut for event in _told(events, CutChosen)]
    (ended,) = _told(events, SplitEpochEnded)
    return (chosen[0] if chosen else plan.job.cut), ended.seconds


def _play(plan: SplitPlan, devices: Sequence[VirtualDevice]) -> list[Event]:
    events: list[Event] = []
    VirtualNodes(devices).run(SplitLaunch(plan=plan, emit=events.append))
    return events


def _told(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]
