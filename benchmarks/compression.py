"""Compares ways to send updates, by bytes and by accuracy, on virtual time: `python benchmarks/compression.py`.

TwoNN on MNIST, which must be found in PACELINE_DATA or the cache; `--quick` uses the digits that come with
scikit-learn. Ten equal learners. On the fast link all methods train the same number of samples, so that accuracies show
what compression costs. On the slow one an update that is not compressed takes most of the round, and `dab` gives
learners with smaller updates more to train. Each repeat has a seed of its own. Nothing here depends on the speed of the
machine. Takes about six minutes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import commandline
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.aggregation import FedAvgAggregation
from paceline.learning.datasets import DataSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.parallel.events import RoundClosed
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.topology import TOPOLOGY
from repeats import Case, Measurements
from report import Page
from reproduction.trials import play
from targets import Target

WHOLE = "none"
METHODS: dict[str, dict[str, Any]] = {
    WHOLE: {},
    "int8": {"compression": "int8"},
    "int4": {"compression": "int4"},
    "top-k 10 %": {"compression": "top-k", "kept_share": 0.1},
    "top-k 5 %": {"compression": "top-k", "kept_share": 0.05},
    "top-k 1 %": {"compression": "top-k", "kept_share": 0.01},
}
PACKAGES = ("paceline", "numpy", "torch")
BYTES = "up_bytes"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The job, but for how updates are sent, and the fleet, but for its link up.

    Attributes:
        max_shards: limit of a learner's shards on the fast link, for which there is always time.
    """

    data: str = "mnist"
    shard_size: int = 500
    batch_size: int = 50
    samples_per_second: float = 800.0
    learning_rate: float = 0.1
    deadline_seconds: float = 10.0
    fast_mbit: float = 100.0
    slow_mbit: float = 0.2
    max_shards: int = 12
    num_learners: int = 10
    num_rounds: int = 15
    num_repeats: int = 3


QUICK = Settings(
    data="digits", shard_size=16, batch_size=8, samples_per_second=20.0, max_shards=8, num_rounds=3, num_repeats=1
)
"""A size for tests: shows that all of it runs."""


def case_of(method: str, settings: Settings) -> Case:
    """One method, on a fast and on a slow link."""

    def case(repeat: int) -> dict[str, float]:
        fast, slow = (
            rounds_of(method, repeat, mbit, max_shards, settings)
            for mbit, max_shards in ((settings.fast_mbit, settings.max_shards), (settings.slow_mbit, None))
        )
        return {
            BYTES: sum(closed.up_bytes for closed in fast) / sum(closed.num_updates for closed in fast),
            "accuracy": fast[-1].metrics["accuracy"],
            "slow_accuracy": slow[-1].metrics["accuracy"],
            "samples": statistics.mean(closed.num_samples for closed in fast),
            "slow_samples": statistics.mean(closed.num_samples for closed in slow),
        }

    return case


def rounds_of(method: str, seed: int, mbit: float, max_shards: int | None, settings: Settings) -> list[RoundClosed]:
    """Run the job on equal devices with such a link up; returns its rounds."""
    device = VirtualDevice(
        name="d",
        count=settings.num_learners,
        samples_per_second=settings.samples_per_second,
        down_mbit=settings.fast_mbit,
        up_mbit=mbit,
        latency_ms=10,
        max_shards=max_shards,
    )
    job = Job(
        deadline_seconds=settings.deadline_seconds,
        rounds=settings.num_rounds,
        batch_size=settings.batch_size,
        seed=seed,
        min_learners=settings.num_learners,
        data=DataSpec(name=settings.data, shard_size=settings.shard_size),
        optimizer=OptimizerSpec(name="SGD", options={"lr": settings.learning_rate}),
        allocation="dab",
        aggregation=FedAvgAggregation(**METHODS[method]),
    )
    told = play(TOPOLOGY.prepare(job), VirtualFleet([device])).events
    return [event for event in told if isinstance(event, RoundClosed)]


def page_of(measurements: Measurements) -> Page:
    """The table: bytes of an update, and on both links the accuracy and how far it is from that of whole updates."""
    settings: Settings = measurements.settings

    def points(name: str, metric: str) -> str:
        pairs = zip(measurements.values(name, metric), measurements.values(WHOLE, metric), strict=False)
        gained = [100 * (own - whole) for own, whole in pairs]  # of the same seed
        return f"{statistics.median(gained):+.2f}" if gained and name != WHOLE else ""

    def row(name: str) -> list[str]:
        whole, own = measurements.median(WHOLE, BYTES), measurements.median(name, BYTES) or 0.0
        accuracies = [
            cell
            for metric in ("accuracy", "slow_accuracy")
            for cell in (f"{measurements.median(name, metric) or 0.0:.2%}", points(name, metric))
        ]
        samples = f"{measurements.median(name, 'slow_samples') or 0.0:,.0f}"
        return [name, f"{own:,.0f}", f"{whole / own:.2f}×" if whole and own else "", *accuracies, samples]

    return Page(
        setting=f"virtual time, TwoNN on {settings.data}, {settings.num_learners} equal learners, "
        f"{settings.num_rounds} rounds of {settings.deadline_seconds:g} s, {settings.fast_mbit:g} and "
        f"{settings.slow_mbit:g} Mbit/s up",
        headings=[
            *("Updates", "bytes each", "fewer", "accuracy, fast link", "points"),
            *("accuracy, slow link", "points", "samples per round"),
        ],
        rows=[row(name) for name in measurements.repeats],
    )


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Every method."""
    return {name: case_of(name, settings) for name in systems}


def targets_of(settings: Settings) -> list[Target]:
    """At least four times fewer bytes."""
    return [
        Target(f"bytes of an update, {WHOLE} / {name}", WHOLE, (BYTES,), (name,), 4.0)
        for name in ("int8", "int4", "top-k 10 %")
    ]


if __name__ == "__main__":
    command = commandline.Command("compression", __doc__, METHODS, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of, targets_of)
