"""Compares aggregation methods with and without wrong updates, on virtual time: `python benchmarks/robust.py`.

TwoNN on MNIST, which must be found in PACELINE_DATA or the cache; `--quick` uses the digits that come with
scikit-learn. Ten equal learners; where the fleet is poisoned, two of them flip the sign of their change and make it ten
times as large. A run that diverges counts as it was in its last round before that. Each repeat has a seed of its own.
Nothing here depends on the speed of the machine. Takes about eight minutes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import commandline
from paceline.errors import DivergedError
from paceline.events import Event
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.aggregation import (
    Aggregation,
    FedAvgAggregation,
    KrumAggregation,
    MedianAggregation,
    MultiKrumAggregation,
    TrimmedMeanAggregation,
)
from paceline.learning.datasets import DataSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.parallel.events import RoundClosed
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.topology import TOPOLOGY
from repeats import Case, Measurements
from report import Page
from reproduction.trials import play

NUM_POISONED = 2
POISON_FACTOR = -10.0
METHODS: dict[str, Aggregation] = {
    "fedavg": FedAvgAggregation(),
    "median": MedianAggregation(),
    "trimmed-mean": TrimmedMeanAggregation(trim=0.2),
    "krum": KrumAggregation(num_byzantine=NUM_POISONED),
    "multi-krum": MultiKrumAggregation(num_byzantine=NUM_POISONED),
}
FLEETS = {"clean": 0, "poisoned": NUM_POISONED}
PACKAGES = ("paceline", "numpy", "torch")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The job, but for its aggregation."""

    data: str = "mnist"
    shard_size: int = 500
    batch_size: int = 50
    samples_per_second: float = 800.0
    learning_rate: float = 0.05
    deadline_seconds: float = 15.0
    num_learners: int = 10
    num_rounds: int = 10
    num_repeats: int = 3


QUICK = Settings(
    data="digits", shard_size=16, batch_size=8, samples_per_second=20.0, learning_rate=0.1, num_rounds=6, num_repeats=1
)
"""A size for tests: shows that all of it runs."""


def case_of(method: Aggregation, settings: Settings) -> Case:
    """One method, on a clean and on a poisoned fleet."""

    def case(repeat: int) -> dict[str, float]:
        figures = {}
        for kind, num_poisoned in FLEETS.items():
            fleet = VirtualFleet(fleet_of(num_poisoned, settings))
            told: list[Event] = []
            with contextlib.suppress(DivergedError):  # a poisoned average may; its last round counts
                play(TOPOLOGY.prepare(job_of(method, repeat, settings)), fleet, told.append)
            closed = [event for event in told if isinstance(event, RoundClosed)]
            figures[f"{kind}_round_3"] = closed[2].metrics.get("accuracy") or 0.0
            figures[kind] = closed[-1].metrics.get("accuracy") or 0.0
        return {**figures, "points_lost": 100 * (figures["clean"] - figures["poisoned"])}

    return case


def job_of(method: Aggregation, seed: int, settings: Settings) -> Job:
    """The job with this aggregation."""
    return Job(
        deadline_seconds=settings.deadline_seconds,
        rounds=settings.num_rounds,
        batch_size=settings.batch_size,
        seed=seed,
        min_learners=settings.num_learners,
        data=DataSpec(name=settings.data, shard_size=settings.shard_size),
        optimizer=OptimizerSpec(name="SGD", options={"lr": settings.learning_rate}),
        aggregation=method,
    )


def fleet_of(num_poisoned: int, settings: Settings) -> list[VirtualDevice]:
    """Equal devices, some of them poisoned."""
    return [
        VirtualDevice(
            name=f"d{number}",
            samples_per_second=settings.samples_per_second,
            down_mbit=100,
            up_mbit=50,
            latency_ms=10,
            poison_factor=POISON_FACTOR if number < num_poisoned else 1.0,
        )
        for number in range(settings.num_learners)
    ]


def page_of(measurements: Measurements) -> Page:
    """The table: accuracies on both fleets, and the points lost to the poisoned learners."""
    settings: Settings = measurements.settings
    accuracies = [f"{kind}{suffix}" for kind in FLEETS for suffix in ("_round_3", "")]

    def row(name: str) -> list[str]:
        lost = measurements.median(name, "points_lost") or 0.0
        return [name, *(f"{measurements.median(name, metric) or 0.0:.1%}" for metric in accuracies), f"{lost:.1f}"]

    return Page(
        setting=f"virtual time, TwoNN on {settings.data}, {settings.num_learners} equal learners, {NUM_POISONED} "
        f"poisoned by a factor of {POISON_FACTOR:g}, {settings.num_rounds} rounds of {settings.deadline_seconds:g} s",
        headings=[
            "Aggregation",
            *(f"{kind}, round {number}" for kind in FLEETS for number in (3, settings.num_rounds)),
            "points lost",
        ],
        rows=[row(name) for name in measurements.repeats],
    )


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Every method."""
    return {name: case_of(METHODS[name], settings) for name in systems}


if __name__ == "__main__":
    command = commandline.Command("robust", __doc__, METHODS, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of)
