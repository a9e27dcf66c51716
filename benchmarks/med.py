"""How fast and how good the solver of MED is: `python benchmarks/med.py` (about twenty minutes).

Each repeat draws problems of the thesis's shape: its three tasks by turns, whose shards grow with learners per task,
states drawn by a softmax of heat 0.5, prices from a normal distribution cut to 0.1 to 1.5, at least one shard each. The
rates are ours, since the thesis gives none: learners differ by 0.5 to 1.5 in speed and 2 to 8 MB/s in bandwidth, and
contention halves either. Its budget, 300 for 140 shards, can never be exceeded; "tight" is 0.85 per shard.

`med` is compared with HiGHS on the program as the thesis writes it (`highs`), with a large constant for who is in a
task, and with `greedy`. Each has a time limit by size; the gap is between what it found and what it has proven.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np

import commandline
from paceline.allocation.med import GreedyProblem, MedLearner, MedProblem, MedState, MedTask
from repeats import Case, Measurements
from report import Page, significant
from targets import Target

PACKAGES = ("paceline", "numpy", "highspy")
SYSTEMS = ("med", "highs", "greedy")
HEAT = 0.5
SLOWED = {"idle": (1.0, 1.0), "training": (0.45, 0.95), "downloading": (0.9, 0.4)}
"""Of training and of bandwidth, what is left of the rate in each state."""
TASKS = ((60, 55.0, 2, 2.0, 2.2e6), (60, 40.0, 1, 1.0, 0.6e6), (20, 40.0, 1, 0.8, 5.0e6))
"""Shards, deadline and iterations of the thesis's Table 4.1; shards per second and model bytes are ours."""


@dataclass(frozen=True)
class Size:
    """Learners, tasks, whether the budget is tight, and the seconds that a solver has."""

    num_learners: int
    num_tasks: int
    limit_seconds: float
    is_tight: bool = False
    has_baseline: bool = False

    @property
    def text(self) -> str:
        return f"{self.num_learners:,} × {self.num_tasks}{', tight' if self.is_tight else ''}"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The problems."""

    sizes: tuple[Size, ...] = (
        Size(10, 3, 30.0, has_baseline=True),
        Size(10, 4, 30.0, has_baseline=True),
        Size(10, 4, 30.0, is_tight=True, has_baseline=True),
        Size(20, 4, 30.0, has_baseline=True),
        Size(20, 4, 30.0, is_tight=True),
        Size(50, 5, 30.0),
        Size(100, 10, 5.0),
        Size(1_000, 20, 30.0),
    )
    num_repeats: int = 5


QUICK = Settings(sizes=(Size(6, 2, 5.0, has_baseline=True),), num_repeats=1)
"""A size for tests."""


def problem(size: Size, seed: int, kind: type[MedProblem] = MedProblem) -> MedProblem:
    """One of a size; but for the kind the same for the same seed."""
    chance = random.Random(seed)
    tasks = []
    for number in range(size.num_tasks):
        shards, deadline, iterations, _, model_bytes = TASKS[number % len(TASKS)]
        shards = max(1, round(shards * (size.num_learners / 10) * (3 / size.num_tasks)))
        tasks.append(
            MedTask(
                name=f"t{number}",
                shards=shards,
                deadline_seconds=deadline,
                model_bytes=model_bytes,
                shard_bytes=392_500,
                iterations=iterations,
            )
        )
    rates = {task.name: TASKS[k % len(TASKS)][3] * chance.uniform(0.7, 1.4) for k, task in enumerate(tasks)}
    budget = sum(task.shards for task in tasks) * (0.85 if size.is_tight else 300 / 140)
    learners = [_learner(number, rates, chance) for number in range(size.num_learners)]
    return kind(budget=budget, min_shards=1, tasks=tasks, learners=learners)


def _learner(number: int, rates: dict[str, float], chance: random.Random) -> MedLearner:
    speed, bandwidth, likely = chance.uniform(0.5, 1.5), chance.uniform(2e6, 8e6), chance.choice(list(SLOWED))
    weights = {state: math.exp((state == likely) / HEAT) for state in SLOWED}
    return MedLearner(
        name=f"w{number}",
        price=min(1.5, max(0.1, chance.gauss(1.0, math.sqrt(0.5)))),
        states=[
            MedState(
                probability=weights[state] / sum(weights.values()),
                bytes_per_second=bandwidth * link * chance.uniform(0.9, 1.1),
                shards_per_second={
                    task: rate * speed * compute * chance.uniform(0.9, 1.1) for task, rate in rates.items()
                },
            )
            for state, (compute, link) in SLOWED.items()
        ],
    )


def plain_highs(posed: MedProblem, limit_seconds: float) -> tuple[float, float]:
    """Objective and bound of the program as it is written down, by HiGHS; infinite if nothing was found."""
    instance = posed.instance()
    num_tasks, num_learners = instance.num_tasks, instance.num_learners
    solver = highspy.Highs()
    for option, value in {"output_flag": False, "time_limit": limit_seconds, "mip_rel_gap": 1e-7}.items():
        solver.setOptionValue(option, value)
    most = instance.capacities(np.arange(num_tasks), instance.deadlines)
    ends = [solver.addVariable(0, float(t), 1.0) for t in instance.deadlines]
    counts = [[solver.addIntegral(0, float(most[i, j])) for j in range(num_learners)] for i in range(num_tasks)]
    is_in = [[solver.addBinary() for _ in range(num_learners)] for _ in range(num_tasks)]
    for i in range(num_tasks):
        solver.addConstr(sum(counts[i]) == float(instance.shards[i]))
        for j in range(num_learners):
            solver.addConstr(counts[i][j] <= float(most[i, j]) * is_in[i][j])
            fixed, unit = float(instance.fixed_seconds[i, j]), float(instance.unit_seconds[i, j])
            solver.addConstr(fixed * is_in[i][j] + unit * counts[i][j] <= ends[i])
    for j in range(num_learners):
        solver.addConstr(sum(row[j] for row in is_in) <= 1)
        solver.addConstr(sum(row[j] for row in counts) >= posed.min_shards)
    solver.addConstr(
        sum(float(instance.prices[j]) * row[j] for row in counts for j in range(num_learners)) <= instance.budget
    )
    solver.run()
    info = solver.getInfo()
    objective = info.objective_function_value if info.primal_solution_status == 2 else math.inf
    return float(objective), float(info.mip_dual_bound)


def case_of(system: str, size: Size) -> Case:
    """One solver for one size."""

    def case(repeat: int) -> dict[str, float]:
        kind = GreedyProblem if system == "greedy" else MedProblem
        posed = problem(size, repeat, kind)
        start = time.perf_counter()
        if system == "highs":
            objective, bound = plain_highs(posed, size.limit_seconds)
        else:
            reply = posed.solve(time_limit_seconds=size.limit_seconds)
            assert reply.bound is not None or system == "greedy", reply.reason
            objective = math.inf if reply.objective is None else reply.objective
            bound = 0.0 if reply.bound is None else reply.bound
        seconds = time.perf_counter() - start
        gap = 1.0 if math.isinf(objective) else 1 - bound / objective
        return {
            "seconds": seconds,
            "objective": min(objective, 1e9),
            "gap": gap,
            "is_proven": float(gap <= 1e-6),
            "is_found": float(math.isfinite(objective)),
        }

    return case


def page_of(measurements: Measurements) -> Page:
    """The table: medians, the worst gap, and how many were proven."""

    def gap(name: str, worst: bool) -> str:
        values = measurements.values(name, "gap")
        return f"{max(values) if worst else statistics.median(values):.2%}"

    def share(name: str, metric: str) -> str:
        return f"{statistics.mean(measurements.values(name, metric)):.0%}"

    return Page(
        setting="problems of the thesis's shape",
        headings=[
            "Solver, learners × tasks",
            "s",
            "s, slowest",
            "gap",
            "largest gap",
            "proven",
            "found",
            "objective, s",
        ],
        rows=[
            [
                name,
                significant(measurements.median(name, "seconds")),
                significant(max(measurements.values(name, "seconds"))),
                gap(name, False),
                gap(name, True),
                share(name, "is_proven"),
                share(name, "is_found"),
                significant(measurements.median(name, "objective"))
                if min(measurements.values(name, "is_found")) > 0
                else "–",
            ]
            for name in measurements.repeats
        ],
    )


SECONDS = ("seconds",)
TARGETS = [
    Target("seconds to the optimum, 10 × 3, med / highs", "med, 10 × 3", SECONDS, ("highs, 10 × 3",), 0.1, True),
    Target(
        "seconds to the optimum or limit, 10 × 4, med / highs", "med, 10 × 4", SECONDS, ("highs, 10 × 4",), 0.05, True
    ),
    Target(
        "seconds to the optimum or limit, 20 × 4, med / highs", "med, 20 × 4", SECONDS, ("highs, 20 × 4",), 0.33, True
    ),
]


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Every solver for every size; the plain program only where it can be waited for."""
    cases: dict[str, Case] = {}
    for system in systems:
        case_of(system, QUICK.sizes[0])(0)  # what is imported then is not measured
        for size in settings.sizes:
            if system != "highs" or size.has_baseline:
                cases[f"{system}, {size.text}"] = case_of(system, size)
    return cases


if __name__ == "__main__":
    command = commandline.Command("med", __doc__, SYSTEMS, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of, lambda settings: TARGETS)
