"""Compares what a fifth of liars does to a job under each defence, on virtual time: `python benchmarks/poisoning.py`.

TwoNN on MNIST, which must be found in PACELINE_DATA or the cache, and LeNet-5 on CIFAR-10, from the file that
PACELINE_CIFAR names, or cifar10-25k.npz in PACELINE_DATA; `--quick` uses the digits that come with scikit-learn.
Two of ten equal learners lie in every round, in one of five ways: their change times -10 (scaled) or -1 (flipped),
parameters that are all 0 (zeros), the first parameters again (stale), or, all alike, the model's last step backwards,
as long as 1.45 times their own change, which is just under the limit (colluding). A run that diverges counts as it was
in its last round before that. Nothing here depends on the speed of the machine. Takes about ten minutes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import commandline
from paceline.errors import DivergedError
from paceline.events import Event
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel import events
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.topology import TOPOLOGY
from repeats import Case, Measurements
from report import Page
from reproduction.trials import play

NUM_LIARS = 2
NUM_LEARNERS = 10
LIES: dict[str, dict[str, Any]] = {
    "clean": {},
    "scaled": {"poison_factor": -10.0},
    "flipped": {"poison_factor": -1.0},
    "zeros": {"poison": "zeros"},
    "stale": {"poison": "stale"},
    "colluding": {"poison": "colluding", "poison_factor": 1.45},
}
UNLIMITED = {"max_weight": 0.0, "clip": 0.0}
DEFENCES: dict[str, dict[str, Any]] = {
    "none": {"aggregation": UNLIMITED, "rolls_back": False},
    "rollback": {"aggregation": UNLIMITED},
    "limits": {"rolls_back": False},
    "default (both)": {},
    "audits": {"aggregation": UNLIMITED, "rolls_back": False, "audit_rate": 0.1},
    "median": {"aggregation": "median", "rolls_back": False},
    "multi-krum": {"aggregation": {"method": "multi-krum", "num_byzantine": NUM_LIARS}, "rolls_back": False},
}
PACKAGES = ("paceline", "numpy", "torch")


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained.

    Attributes:
        defences: those that are tried on it.
    """

    data: str
    model: str
    shard_size: int
    batch_size: int
    learning_rate: float
    samples_per_second: float
    num_rounds: int
    defences: Sequence[str] = tuple(DEFENCES)

    def data_spec(self) -> DataSpec:
        """Return its data: a file for CIFAR-10, which no package brings."""
        if self.data != "cifar10":
            return DataSpec(name=self.data, shard_size=self.shard_size)
        default = Path(os.environ.get("PACELINE_DATA", ".")) / "cifar10-25k.npz"
        return DataSpec(path=os.environ.get("PACELINE_CIFAR", str(default)), shard_size=self.shard_size)


MNIST = Task(
    data="mnist",
    model="two-nn",
    shard_size=500,
    batch_size=50,
    learning_rate=0.05,
    samples_per_second=250.0,
    num_rounds=8,
)
CIFAR = Task(
    data="cifar10",
    model="lenet-5",
    shard_size=250,
    batch_size=32,
    learning_rate=0.1,
    samples_per_second=120.0,
    num_rounds=6,
    defences=("none", "default (both)"),
)
DIGITS = Task(
    data="digits",
    model="two-nn",
    shard_size=16,
    batch_size=8,
    learning_rate=0.1,
    samples_per_second=20.0,
    num_rounds=4,
    defences=("none", "default (both)"),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is trained, and how often."""

    tasks: tuple[Task, ...] = (MNIST, CIFAR)
    deadline_seconds: float = 15.0
    lies: tuple[str, ...] = tuple(LIES)
    num_repeats: int = 1


QUICK = Settings(tasks=(DIGITS,), lies=("clean", "scaled"))
"""A size for tests: shows that all of it runs."""


@dataclass
class _Outcome:
    """What came of a run."""

    told: list[Event] = field(default_factory=list)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]

    @property
    def accuracy(self) -> float:
        closed = self.of(events.RoundClosed)
        return (closed[-1].metrics.get("accuracy") or 0.0) if closed else 0.0

    def num_honest(self, kind: type[Any]) -> int:
        """Count the events of a kind about honest learners."""
        return sum(event.learner.startswith("honest") for event in self.of(kind))

    @property
    def num_excluded(self) -> int:
        """Number of honest learners that were excluded."""
        left = self.of(LearnerLeft)
        return sum(event.learner.startswith("honest") and event.reason.startswith("excluded") for event in left)


def case_of(name: str, settings: Settings) -> Case:
    """One defence, on all tasks that it is tried on, without liars and with each kind."""

    def case(repeat: int) -> dict[str, float]:
        figures: dict[str, float] = {"limited_honest": 0.0, "excluded_honest": 0.0, "rolled_back": 0.0}
        for task in settings.tasks:
            for lie in settings.lies if name in task.defences else ():
                outcome = run_of(task, lie, name, repeat, settings)
                figures[f"{task.data} {lie}"] = outcome.accuracy
                figures["limited_honest"] += outcome.num_honest(events.UpdateLimited)
                figures["excluded_honest"] += outcome.num_excluded
                figures["rolled_back"] += len(outcome.of(events.RoundRolledBack))
        return figures

    return case


def run_of(task: Task, lie: str, defence: str, seed: int, settings: Settings) -> _Outcome:
    """Train once."""
    job = Job(
        deadline_seconds=settings.deadline_seconds,
        rounds=task.num_rounds,
        batch_size=task.batch_size,
        seed=seed,
        min_learners=NUM_LEARNERS - NUM_LIARS,  # those who are caught are excluded
        data=task.data_spec(),
        model=ModelSpec(name=task.model),
        optimizer=OptimizerSpec(name="SGD", options={"lr": task.learning_rate}),
        **DEFENCES[defence],
    )
    device = {"samples_per_second": task.samples_per_second, "down_mbit": 100, "up_mbit": 50, "latency_ms": 10}
    liars = VirtualDevice(name="liar", count=NUM_LIARS, **device, **LIES[lie])
    honest = VirtualDevice(name="honest", count=NUM_LEARNERS - NUM_LIARS, **device)
    outcome = _Outcome()
    with contextlib.suppress(DivergedError):  # its last round counts
        play(TOPOLOGY.prepare(job), VirtualFleet([liars, honest]), outcome.told.append)
    return outcome


def page_of(measurements: Measurements) -> Page:
    """The table: accuracy of each defence against each lie, and what it did to honest learners."""
    settings: Settings = measurements.settings
    rows = []
    for task in settings.tasks:
        for name in measurements.repeats:
            if name in task.defences:
                accuracies = [measurements.median(name, f"{task.data} {lie}") or 0.0 for lie in settings.lies]
                lost = 100 * (accuracies[0] - min(accuracies))
                rows.append([f"{task.data}: {name}", *(f"{accuracy:.1%}" for accuracy in accuracies), f"{lost:.1f}"])
    return Page(
        setting=f"virtual time, {NUM_LEARNERS} equal learners, {NUM_LIARS} of them lie, "
        + "; ".join(f"{task.model} on {task.data}, {task.num_rounds} rounds" for task in settings.tasks),
        headings=["Defence", *settings.lies, "points lost at most"],
        rows=rows,
    )


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Every defence that is tried on a task."""
    tried = {name for task in settings.tasks for name in task.defences}
    return {name: case_of(name, settings) for name in systems if name in tried}


if __name__ == "__main__":
    command = commandline.Command("poisoning", __doc__, DEFENCES, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of)
