"""How fast and how good the solvers of CSA are: `python benchmarks/allocation.py` (about two minutes).

Each repeat draws a problem of the paper's setting: half the learners of 2.4 GHz, half of 0.7 GHz, within 50 m of the
orchestrator, MNIST and its network. Drawn are the places, the cycle (7.5 to 15 s) and the samples per learner (100 to
3,000). By turns the data is sent or on the devices already, and a learner may get a tenth to ten times an equal share
or 0.6 to 1.4 of it; the paper does not say. All solvers get the same problems. The baselines take too long for large
fleets and are left out there.
"""

from __future__ import annotations

import functools
import math
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import commandline
from paceline.allocation import PROBLEMS
from paceline.allocation.cycle_problem import CycleLearner, CycleProblem
from paceline.allocation.staleness import average_staleness, staleness
from repeats import Case, Measurements
from report import Page, significant
from targets import Target

sys.path.append(str(Path(__file__).parents[1] / "experiments"))

from papers.mel import Scenario, Workload, place_nodes

PACKAGES = ("paceline", "numpy", "scipy")
MOST_LEARNERS = {"csa": 10_000, "csa-relaxed": 100, "csa-sai": 1_000, "eta": 10_000}
"""Of each solver, beyond which it is not asked: SLSQP takes seconds from 200 on, and a move looks at all learners."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The fleets."""

    num_learners: tuple[int, ...] = (10, 20, 50, 100, 1_000, 10_000)
    samples_per_learner: tuple[float, float] = (100, 3_000)
    cycle_seconds: tuple[float, float] = (7.5, 15.0)
    limits: tuple[tuple[float, float], ...] = ((0.1, 10.0), (0.6, 1.4))
    """Of a learner's samples, as ratios of an equal share."""
    num_repeats: int = 60


QUICK = Settings(num_learners=(10, 100), num_repeats=1)
"""A size for tests."""


@functools.lru_cache(maxsize=8)
def fleet(num_learners: int, seed: int) -> list[CycleLearner]:
    """So many learners of the paper; the same for the same seed."""
    scenario: Scenario = "distributed-datasets" if seed % 2 else "task-parallelization"
    return [
        CycleLearner(name=node.name, c2=seconds.c2, c1=seconds.c1, c0=seconds.c0)
        for node in place_nodes(num_learners, seed)
        for seconds in [node.coefficients(Workload(), scenario)]
    ]


def problem(policy: str, num_learners: int, seed: int, settings: Settings) -> CycleProblem:
    """One of a fleet; but for the policy the same for the same seed."""
    kind, chance = PROBLEMS[policy], random.Random(seed)
    assert issubclass(kind, CycleProblem)
    cycle_seconds = chance.uniform(*settings.cycle_seconds)
    equal = math.exp(chance.uniform(*map(math.log, settings.samples_per_learner)))
    least, most = settings.limits[seed // 2 % len(settings.limits)]
    return kind(
        samples=int(equal * num_learners),
        cycle_seconds=cycle_seconds,
        min_samples=int(least * equal),
        max_samples=int(most * equal),
        # equal shares leave slow learners without a local epoch; that is a result, too
        min_iterations=0 if policy == "eta" else 1,
        learners=fleet(num_learners, seed),
    )


def case_of(policy: str, num_learners: int, settings: Settings) -> Case:
    """One solver for one size."""

    def case(repeat: int) -> dict[str, float]:
        posed = problem(policy, num_learners, repeat, settings)
        start = time.perf_counter()
        reply = posed.solve()
        seconds = time.perf_counter() - start
        best = problem("csa", num_learners, repeat, settings).solve()
        assert best.objective is not None, best.reason
        return {
            "ms": 1e3 * seconds,
            "us_per_learner": 1e6 * seconds / num_learners,
            "max_staleness": staleness(reply.allocation),
            "average_staleness": average_staleness(reply.allocation),
            "local_epochs": sum(share.iterations for share in reply.allocation) / num_learners,
            "is_worse": float(staleness(reply.allocation) > best.objective),
        }

    return case


def page_of(measurements: Measurements) -> Page:
    """The table: median times, and means of the rest, which are small whole numbers."""

    def mean(name: str, metric: str) -> str:
        return significant(statistics.mean(measurements.values(name, metric)))

    return Page(
        setting="problems drawn from the paper's setting",
        headings=[
            "Solver, learners",
            "ms",
            "µs per learner",
            "greatest staleness, mean",
            "average staleness, mean",
            "local epochs, mean",
            "more staleness than csa",
        ],
        rows=[
            [
                name,
                significant(measurements.median(name, "ms")),
                significant(measurements.median(name, "us_per_learner")),
                *(mean(name, metric) for metric in ("max_staleness", "average_staleness", "local_epochs")),
                f"{statistics.mean(measurements.values(name, 'is_worse')):.0%}",
            ]
            for name in measurements.repeats
        ],
    )


TARGETS = [
    Target("µs per learner, csa, 10,000 / 1,000", "csa, 10,000", ("us_per_learner",), ("csa, 1,000",), 1.5, True),
    Target("time for 100 learners, csa / csa-relaxed", "csa, 100", ("ms",), ("csa-relaxed, 100",), 0.1, True),
]


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Every solver for the sizes that it can do."""
    cases: dict[str, Case] = {}
    for policy in systems:
        problem(policy, 10, 0, settings).solve()  # what is imported then is not measured
        for num_learners in settings.num_learners:
            if num_learners <= MOST_LEARNERS[policy]:
                cases[f"{policy}, {num_learners:,}"] = case_of(policy, num_learners, settings)
    return cases


if __name__ == "__main__":
    command = commandline.Command("allocation", __doc__, MOST_LEARNERS, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of, lambda settings: TARGETS)
