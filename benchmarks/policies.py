"""Compares allocation policies on a fleet of speeds 1:2:4:8, on virtual time: `python benchmarks/policies.py`.

TwoNN on MNIST, which must be found in PACELINE_DATA or the cache; `--quick` uses the digits that come with
scikit-learn. Each repeat has a seed of its own. All policies get the same deadline and rounds, so the same virtual
time. Nothing here depends on the speed of the machine. Takes about five minutes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import commandline
from paceline.allocation import AdaptiveDabAllocation, AllocationPolicy, DabAllocation, EqualAllocation
from paceline.events import Event
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.datasets import DataSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.parallel.events import RoundClosed
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.topology import TOPOLOGY
from repeats import Case, Measurements
from report import Page
from reproduction.trials import play

POLICIES: dict[str, AllocationPolicy] = {
    "dab": DabAllocation(),
    "adaptive-dab": AdaptiveDabAllocation(),
    "eta": EqualAllocation(),
}
NOISES = {"steady": 0.0, "±20 %": 0.2}
PACKAGES = ("paceline", "numpy", "torch")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The job, but for its policy. The fleet can train about all of the data once per round and local epoch."""

    data: str = "mnist"
    shard_size: int = 500
    batch_size: int = 50
    samples_per_second: float = 500.0
    """Of the slowest device."""
    learning_rate: float = 0.01
    deadline_seconds: float = 15.0
    local_epochs: int = 2
    num_rounds: int = 10
    num_repeats: int = 5


QUICK = Settings(
    data="digits", shard_size=16, batch_size=8, samples_per_second=13.0, learning_rate=0.05, num_rounds=4, num_repeats=1
)
"""A size for tests: shows that all of it runs."""


def case_of(policy: AllocationPolicy, noise: float, settings: Settings) -> Case:
    """One policy on the fleet; speeds and links vary by this ratio from round to round."""

    def case(repeat: int) -> dict[str, float]:
        job = Job(
            deadline_seconds=settings.deadline_seconds,
            rounds=settings.num_rounds,
            local_epochs=settings.local_epochs,
            batch_size=settings.batch_size,
            seed=repeat,
            min_learners=4,
            data=DataSpec(name=settings.data, shard_size=settings.shard_size),
            optimizer=OptimizerSpec(name="SGD", options={"lr": settings.learning_rate}),
            allocation=policy,
        )
        return figures(play(TOPOLOGY.prepare(job), VirtualFleet(fleet_of(noise, settings))).events)

    return case


def fleet_of(noise: float, settings: Settings) -> list[VirtualDevice]:
    """Four devices of speeds 1:2:4:8 on the same link."""
    return [
        VirtualDevice(
            name=f"d{speed}",
            samples_per_second=speed * settings.samples_per_second,
            down_mbit=100,
            up_mbit=50,
            latency_ms=10,
            speed_noise=noise,
            link_noise=noise,
        )
        for speed in (1, 2, 4, 8)
    ]


def figures(told: list[Event]) -> dict[str, float]:
    """What counts of a run, as ratios."""
    summary, closed = TOPOLOGY.kinds[Job].summary(told), [event for event in told if isinstance(event, RoundClosed)]
    num_shares = sum(event.num_learners for event in closed)
    return {
        "accuracy_round_3": closed[2].metrics.get("accuracy") or 0.0,
        "accuracy": closed[-1].metrics.get("accuracy") or 0.0,
        "samples_per_round": sum(event.num_samples for event in closed) / len(closed),
        "deadline_use": summary.deadline_use,
        "truancy_max": summary.truancy_max,
        "late": sum(len(event.late) for event in closed) / num_shares,
        "virtual_seconds": sum(event.seconds for event in closed),
    }


def page_of(measurements: Measurements) -> Page:
    """The table."""
    settings: Settings = measurements.settings
    columns = {
        "accuracy_round_3": "accuracy, round 3",
        "accuracy": f"accuracy, round {settings.num_rounds}",
        "samples_per_round": "samples per round",
        "deadline_use": "use of the deadline",
        "truancy_max": "largest truancy",
        "late": "late shares",
    }

    def shown(name: str, metric: str) -> str:
        value = measurements.median(name, metric)
        assert value is not None
        return f"{value:,.0f}" if metric == "samples_per_round" else f"{value:.1%}"

    return Page(
        setting=f"virtual time, TwoNN on {settings.data}, devices 1:2:4:8, {settings.num_rounds} rounds of "
        f"{settings.deadline_seconds:g} s",
        headings=["Policy, speeds", *columns.values()],
        rows=[[name, *(shown(name, metric) for metric in columns)] for name in measurements.repeats],
    )


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Every policy, on steady and on varying devices."""
    pairs = itertools.product(NOISES.items(), systems)
    return {f"{name}, {kind}": case_of(POLICIES[name], noise, settings) for (kind, noise), name in pairs}


if __name__ == "__main__":
    command = commandline.Command("policies", __doc__, POLICIES, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of)
