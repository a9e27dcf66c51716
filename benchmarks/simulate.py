"""Times virtual rounds beside Flower's simulation engine: `python benchmarks/simulate.py` (ten minutes).

Both average a model of 40,480 parameters. Without work, Paceline's learners only take virtual time and Flower's clients
add a number to every parameter; with work, both take one gradient step on fifty samples. Flower needs
`make bench-flower` first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import commandline
import own_simulate
from model_sizes import SIZES
from peers import flower
from repeats import Case, Measurements
from report import Page, page_of_medians, whole
from targets import Target

Work = Literal["none", "gradient"]

SYSTEMS = ("paceline", "flower")
PACKAGES = ("paceline", "numpy", "torch", "msgspec")
MODEL = "40k"
RATE, COST, FIRST_SECONDS = "rounds_per_second", "us_per_learner_round", "first_round_seconds"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is measured, by work done: the fleets' sizes. The first round of each run is told apart."""

    paceline_fleets: dict[Work, tuple[int, ...]] = dataclasses.field(
        default_factory=lambda: {"none": (4, 20, 100, 1_000, 10_000), "gradient": (4, 20, 100)}
    )
    flower_fleets: dict[Work, tuple[int, ...]] = dataclasses.field(
        default_factory=lambda: {"none": (20,), "gradient": (20,)}
    )
    num_learner_rounds: int = 4_000
    """Of Paceline: rounds times learners, but at least four rounds."""
    num_rounds: int = 30
    """Of Flower."""
    num_repeats: int = 3


QUICK = Settings(
    paceline_fleets={"none": (4, 20), "gradient": (4, 20)},
    flower_fleets={"none": (4,), "gradient": ()},
    num_learner_rounds=100,
    num_rounds=5,
    num_repeats=1,
)
"""A size for tests: shows that all of it runs, says little about speed."""


def case_name(system: str, work: Work, num_learners: int) -> str:
    """As it stands in tables, targets and JSON."""
    what = {"none": "no training", "gradient": "gradient step"}[work]
    return f"{system}, {what}, {num_learners:,}"


def targets_of(settings: Settings) -> list[Target]:
    """Faster than Flower with 20 learners; the cost of a learner's round does not grow with the fleet."""
    targets = [
        Target(
            f"rounds/s, 20 learners, {what}, paceline / flower",
            case_name("paceline", work, 20),
            (RATE,),
            (case_name("flower", work, 20),),
            20.0,
        )
        for work, what in (("none", "no training"), ("gradient", "gradient step"))
    ]
    for work, (smallest, *_, largest) in settings.paceline_fleets.items():
        small, large = case_name("paceline", work, smallest), case_name("paceline", work, largest)
        text = f"cost of a learner's round, {large.partition(', ')[2]} / {smallest} learners"
        targets.append(Target(text, large, (COST,), (small,), 1.2, True))
    return targets


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """By fleet size, so that what is compared is measured close together."""
    fleets = {"paceline": settings.paceline_fleets, "flower": settings.flower_fleets}
    rows = sorted(
        (work != "none", num_learners, system, work)
        for system in systems
        for work, sizes in fleets[system].items()
        for num_learners in sizes
    )
    return {
        case_name(system, work, num_learners): case_of(system, work, num_learners, settings)
        for _, num_learners, system, work in rows
    }


def case_of(system: str, work: Work, num_learners: int, settings: Settings) -> Case:
    """One fleet of one system."""
    num_rounds = max(4, settings.num_learner_rounds // num_learners)

    def case(repeat: int) -> dict[str, float]:
        if system == "flower":
            job = flower.Job(num_clients=num_learners, num_rounds=settings.num_rounds, widths=SIZES[MODEL], work=work)
            return figures(flower.run_simulation(job).round_seconds, num_learners)
        round_seconds = own_simulate.measure_virtual_rounds(
            widths=SIZES[MODEL], num_learners=num_learners, num_rounds=num_rounds, work=work
        )
        return figures(round_seconds, num_learners)

    return case


def figures(round_seconds: Sequence[float], num_learners: int) -> dict[str, float]:
    """Rounds after the first, by their total time."""
    first, *others = round_seconds
    rate = len(others) / sum(others)
    return {RATE: rate, COST: 1e6 / rate / num_learners, FIRST_SECONDS: first}


def page_of(measurements: Measurements) -> Page:
    """The table."""
    return page_of_medians(
        measurements,
        setting="one machine, 40,480 parameters",
        system="System, work, learners",
        columns={RATE: "rounds/s", COST: "µs per learner and round", FIRST_SECONDS: "first round s"},
        formats={COST: whole},
    )


if __name__ == "__main__":
    command = commandline.Command("simulate", __doc__, SYSTEMS, PACKAGES, flower.versions)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of, targets_of)
