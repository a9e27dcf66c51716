"""Times rounds without training beside Flower's deployment engine: `python benchmarks/rounds.py` (ten minutes).

Four learners on loopback get the model, add a number to every parameter, and send it back; the server averages.
Flower needs `make bench-flower` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import commandline
import own_rounds
from model_sizes import SIZES, num_parameters
from peers import flower
from repeats import Case, Measurements
from report import Page, significant, whole
from targets import Target

SYSTEMS = ("paceline", "flower")
PACKAGES = ("paceline", "numpy", "torch", "msgspec", "uvloop", "httptools")
SECONDS, FIRST_SECONDS, PEAK = "seconds_per_round", "first_round_seconds", "server_peak_mb"
TARGETS = (
    Target("s/round at 40k, paceline / flower", "paceline 40k", (SECONDS,), ("flower 40k",), 1 / 50, True),
    Target("s/round at 10M, paceline / flower", "paceline 10M", (SECONDS,), ("flower 10M",), 1 / 10, True),
    Target("server peak at 40k, paceline / flower", "paceline 40k", (PEAK,), ("flower 40k",), 1.0, True),
    Target("server peak at 10M, paceline / flower", "paceline 10M", (PEAK,), ("flower 10M",), 1.0, True),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is measured. The first round of each run is told apart, the others are averaged."""

    sizes: tuple[str, ...] = tuple(SIZES)
    num_learners: int = 4
    num_paceline_rounds: int = 50
    num_flower_rounds: int = 5
    """Few: each takes some ten seconds."""
    num_repeats: int = 3


QUICK = Settings(sizes=("40k",), num_paceline_rounds=3, num_flower_rounds=2, num_repeats=1)
"""A size for tests: shows that all of it runs, says little about speed."""


def case_of(system: str, size: str, settings: Settings) -> Case:
    """One system with one model, in fresh processes."""

    def case(repeat: int) -> dict[str, float]:
        if system == "flower":
            job = flower.Job(
                num_clients=settings.num_learners, num_rounds=settings.num_flower_rounds, widths=SIZES[size]
            )
            outcome = flower.run_deployment(job)
            return figures(outcome.round_seconds, outcome.server_peak_bytes)
        return figures(
            *own_rounds.measure_rounds(
                widths=SIZES[size], num_learners=settings.num_learners, num_rounds=settings.num_paceline_rounds
            )
        )

    return case


def figures(round_seconds: Sequence[float], server_peak_bytes: int) -> dict[str, float]:
    """The mean, not the median, within a run: polling makes rounds jump between multiples of its interval."""
    first, *others = round_seconds
    return {SECONDS: sum(others) / len(others), FIRST_SECONDS: first, PEAK: server_peak_bytes / 1e6}


def page_of(measurements: Measurements) -> Page:
    """The table."""
    return Page(
        setting=f"loopback, {measurements.settings.num_learners} learners, no training",
        headings=["System", "parameters", "s/round", "first round s", "server peak MB, all processes"],
        rows=[
            [
                name,
                f"{num_parameters(SIZES[name.split()[1]]):,}",
                significant(measurements.median(name, SECONDS)),
                significant(measurements.median(name, FIRST_SECONDS)),
                whole(measurements.median(name, PEAK)),
            ]
            for name in measurements.repeats
        ],
    )


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """By model, so that what is compared is measured close together."""
    return {f"{system} {size}": case_of(system, size, settings) for size in settings.sizes for system in systems}


if __name__ == "__main__":
    command = commandline.Command("rounds", __doc__, SYSTEMS, PACKAGES, flower.versions)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of, lambda settings: TARGETS)
