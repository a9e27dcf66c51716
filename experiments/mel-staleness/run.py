"""Staleness of one cycle over the number of learners, by how the samples are shared out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from paceline.allocation import PROBLEMS
from paceline.allocation.cycle_problem import CycleLearner, CycleProblem
from paceline.allocation.staleness import average_staleness, staleness
from papers.mel import Workload, place_nodes
from reproduction import About, Row
from reproduction.rows import where

ABOUT = About(
    figure="Mohammad and Sorour, Fig. 2",
    claim="With optimised shares, learners differ by about one local epoch; with equal shares, by four.",
    duration="a minute and a half",
    num_seeds=20,
    num_quick_seeds=2,
)
SAMPLES = 60_000
CYCLES_SECONDS = (7.5, 15.0)
LEARNERS = (4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32)
QUICK_LEARNERS = (8, 14, 18, 20)
# The paper bounds the samples of a learner, and does not say by what. These are ratios of an equal share, d/K: bounds
# that bind nobody, which are held against the paper, and some that do, to see what they change.
BOUNDS = {"wide": (0.0, 20.0), "narrow": (0.5, 1.5)}
# Policy, bounds, bits of a pixel. Equal shares are within any bounds; they depend on the size of a sample instead.
CASES = (
    *itertools.product(("csa", "csa-relaxed", "csa-sai"), BOUNDS, (8,)),
    *(("eta", "wide", pixel_bits) for pixel_bits in (8, 16)),
)


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """One placement of the devices: a row per cycle, number of learners and case."""
    for cycle_seconds in CYCLES_SECONDS:
        for num_learners in QUICK_LEARNERS if is_quick else LEARNERS:
            for policy, bounds, pixel_bits in CASES:
                setting = {"cycle_seconds": cycle_seconds, "learners": num_learners, "bounds": bounds}
                problem = _problem(policy, **setting, pixel_bits=pixel_bits, seed=seed)
                yield {"policy": policy, **setting, "pixel_bits": pixel_bits, **_solve(problem)}


def _solve(problem: CycleProblem) -> Row:
    reply = problem.solve()
    shares = reply.allocation
    return {
        "status": reply.status,
        "max_staleness": staleness(shares) if shares else None,
        "average_staleness": average_staleness(shares) if shares else None,
        "fewest_local_epochs": min(share.iterations for share in shares) if shares else None,
        "most_local_epochs": max(share.iterations for share in shares) if shares else None,
    }


def _problem(
    policy: str, *, cycle_seconds: float, learners: int, bounds: str, pixel_bits: int, seed: int
) -> CycleProblem:
    lower, upper = BOUNDS[bounds]
    equal = SAMPLES / learners
    workload = Workload(sample_bits=784 * pixel_bits)
    nodes = [(node.name, node.coefficients(workload, "task-parallelization")) for node in place_nodes(learners, seed)]
    kind = PROBLEMS[policy]
    assert issubclass(kind, CycleProblem)
    return kind(
        samples=SAMPLES,
        cycle_seconds=cycle_seconds,
        min_samples=max(1, int(lower * equal)),
        max_samples=min(SAMPLES, int(upper * equal)),
        # Equal shares may leave a slow learner without a local epoch. That is a result, not a problem without solution.
        min_iterations=0 if policy == "eta" else 1,
        learners=[CycleLearner(name=name, c2=time.c2, c1=time.c1, c0=time.c0) for name, time in nodes],
    )


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the paper's text says of the figure; its numerical solution is csa-relaxed here, and csa is exact."""
    larger = where(rows, pixel_bits=16)
    rows = where(rows, pixel_bits=8)
    found = {
        **_at(rows, "eta", "max", 20, 7.5, "wide"),
        **_at(rows, "eta", "average", 20, 7.5, "wide"),
        **{f"{name}, 16-bit pixels": value for name, value in _at(larger, "eta", "max", 20, 7.5, "wide").items()},
        **{f"{name}, 16-bit pixels": value for name, value in _at(larger, "eta", "average", 20, 7.5, "wide").items()},
        "eta: share of K where a learner has no local epoch, T=7.5": _ratio_idle(where(rows, cycle_seconds=7.5)),
    }
    for bounds in BOUNDS:
        for policy in ("csa-relaxed", "csa"):
            found |= _at(rows, policy, "max", 20, 7.5, bounds)
            found |= _at(rows, policy, "average", 20, 7.5, bounds)
        found |= _at(rows, "csa-relaxed", "max", 14, 15.0, bounds)
        found |= _at(rows, "csa-relaxed", "max", 18, 7.5, bounds)
        found |= _over_all(where(rows, bounds=bounds), bounds)
    return found


def _at(rows: Sequence[Row], policy: str, what: str, num_learners: int, cycle_seconds: float, bounds: str) -> Row:
    [row] = where(rows, policy=policy, learners=num_learners, cycle_seconds=cycle_seconds, bounds=bounds)
    value = row[f"{what}_staleness"]
    name = f"{policy}: {what} staleness, K={num_learners}, T={cycle_seconds:g}{_told(bounds)}"
    return {} if value is None else {name: value}


def _over_all(rows: Sequence[Row], bounds: str) -> dict[str, float]:
    """Figures over all K that have a solution; at least the largest always has one."""
    solved = [row for row in rows if row["status"] != "infeasible"]
    short = where(solved, policy="csa-relaxed", cycle_seconds=7.5)
    pairs = zip(where(solved, policy="csa-relaxed"), where(solved, policy="csa-sai"), strict=True)
    told = _told(bounds)
    return {
        f"csa-relaxed: max staleness, most of all K, T=7.5{told}": max(row["max_staleness"] for row in short),
        f"csa-relaxed: average staleness, mean of all K, T=7.5{told}": _mean(
            [row["average_staleness"] for row in short]
        ),
        f"csa-sai: max staleness, mean distance to csa-relaxed{told}": _mean(
            [abs(one["max_staleness"] - other["max_staleness"]) for one, other in pairs]
        ),
        f"csa: fewest learners that can do it, T=7.5{told}": min(
            row["learners"] for row in where(solved, policy="csa", cycle_seconds=7.5)
        ),
    }


def _told(bounds: str) -> str:
    return "" if bounds == "wide" else f", {bounds} bounds"


def _ratio_idle(rows: Sequence[Row]) -> float:
    return _mean([row["fewest_local_epochs"] == 0 for row in where(rows, policy="eta")])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
