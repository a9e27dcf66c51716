"""Measures what noise costs in accuracy, beside what it promises: `python benchmarks/noise.py`.

TwoNN on MNIST, which must be found in PACELINE_DATA or the cache, split evenly
among learners that keep their data, on virtual time; `--quick` uses digits. Every learner takes part in every round, so
epsilon is that of all rounds, for a device's whole data, at delta 1e-5. The clipping norm is the same for all. Nothing
here depends on the speed of the machine. Takes about twenty minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import commandline
from paceline.events import Event
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.aggregation import FedAvgAggregation
from paceline.learning.datasets import DataSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.privacy import PrivacySpec
from paceline.topologies.parallel.events import RoundClosed
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.topology import TOPOLOGY
from repeats import Case, Measurements
from report import Page
from reproduction.trials import play

NOISE = {"none": None, "clipped": 0.0, "z = 1": 1.0, "z = 2": 2.0, "z = 4": 4.0, "z = 8": 8.0, "z = 16": 16.0}
PACKAGES = ("paceline", "numpy", "torch", "opacus")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The job, but for its noise."""

    data: str = "mnist"
    shard_size: int = 100
    learning_rate: float = 0.05
    clip_norm: float = 0.5
    num_learners: int = 100
    num_rounds: int = 20
    num_repeats: int = 3


QUICK = Settings(data="digits", shard_size=16, num_learners=5, num_rounds=3, num_repeats=1)
"""A size for tests: shows that all of it runs."""


def case_of(noise: float | None, settings: Settings) -> Case:
    """One amount of noise, as a multiple of the clipping norm; None for neither."""

    def case(repeat: int) -> dict[str, float]:
        told: list[Event] = []
        fleet = VirtualFleet([VirtualDevice(name="d", count=settings.num_learners, samples_per_second=600.0)])
        play(TOPOLOGY.prepare(job_of(noise, repeat, settings)), fleet, told.append)
        last = [event for event in told if isinstance(event, RoundClosed)][-1]
        return {"accuracy": last.metrics.get("accuracy") or 0.0, "epsilon": last.epsilon or 0.0}

    return case


def job_of(noise: float | None, seed: int, settings: Settings) -> Job:
    """The job with so much noise."""
    privacy = PrivacySpec() if noise is None else PrivacySpec(clip_norm=settings.clip_norm, noise_multiplier=noise)
    return Job(
        deadline_seconds=10.0,
        rounds=settings.num_rounds,
        local_epochs=2,
        seed=seed,
        min_learners=settings.num_learners,
        benchmark_shards=1,
        data=DataSpec(name=settings.data, shard_size=settings.shard_size, placement="local"),
        optimizer=OptimizerSpec(name="SGD", options={"lr": settings.learning_rate}),
        aggregation=FedAvgAggregation(weight="equal"),
        privacy=privacy,
    )


def page_of(measurements: Measurements) -> Page:
    """The table: accuracy beside epsilon."""
    settings: Settings = measurements.settings

    def row(name: str) -> list[str]:
        epsilon = measurements.median(name, "epsilon") or 0.0
        return [
            name,
            f"{epsilon:.2f}" if epsilon else "no promise",
            f"{measurements.median(name, 'accuracy') or 0:.1%}",
        ]

    return Page(
        setting=f"virtual time, TwoNN on {settings.data}, {settings.num_learners} learners that keep equal parts, all "
        f"in each of {settings.num_rounds} rounds, clipping norm {settings.clip_norm:g}, delta 1e-5",
        headings=["Noise", "epsilon", "accuracy"],
        rows=[row(name) for name in measurements.repeats],
    )


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Every amount of noise."""
    return {name: case_of(NOISE[name], settings) for name in systems}


if __name__ == "__main__":
    command = commandline.Command("noise", __doc__, NOISE, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of)
