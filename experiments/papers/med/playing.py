"""Trials of the schemes, and the rows that they give: one for each job."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.topologies.parallel.events import JobsAllocated, RoundClosed
from paceline.topologies.parallel.jobs import Pool
from paceline.topologies.parallel.prepared import PreparedJob
from papers.med.setting import SCHEMES, policy_of
from reproduction.rows import Row
from reproduction.trials import Trial, play_pool

_UNPROVEN = 1e-6  # of the expected seconds, by which the bound may be below them


class Case(NamedTuple):
    """What all schemes are tried on: jobs, devices, the budget of a round of all jobs, and the seed of the states."""

    jobs: Sequence[PreparedJob]
    devices: Sequence[VirtualDevice]
    budget: float
    seed: int


def play(case: Case, scheme: str, *, is_time_only: bool = True) -> Trial:
    """Run one trial on virtual time. Learners stay where they are placed first, unless the scheme moves them."""
    pool = Pool(
        allocation=policy_of(scheme, case.budget), min_learners=len(case.devices), moves_learners=False, seed=case.seed
    )
    return play_pool(pool, case.jobs, VirtualFleet(case.devices, is_time_only=is_time_only))


def time_rows(case: Case) -> Iterator[Row]:
    """Yield a row per scheme and job, without gradients: none of this depends on them."""
    for scheme in SCHEMES:
        trial = play(case, scheme)
        for job in trial.jobs:
            yield {"part": "time", "scheme": scheme, **job_row(trial, job), "accuracy": None, "apart": None}


def learning_rows(case: Case) -> Iterator[Row]:
    """Yield the same rows with gradients; `apart` is the largest difference of a round's seconds."""
    for scheme in SCHEMES:
        timed, trial = play(case, scheme), play(case, scheme, is_time_only=False)
        for job in trial.jobs:
            closed = trial.jobs[job].events_of(RoundClosed)
            rounds = zip(timed.jobs[job].events_of(RoundClosed), closed, strict=True)
            yield {
                "part": "learning",
                "scheme": scheme,
                **job_row(trial, job),
                "accuracy": 100 * (closed[-1].metrics.get("accuracy") or 0.0),
                "apart": max(abs(one.seconds - other.seconds) for one, other in rounds),
            }


def job_row(trial: Trial, job: str) -> Row:
    """Return the means over a job's rounds, and counts of what went otherwise than the scheme wants."""
    closed, allocations = trial.jobs[job].events_of(RoundClosed), trial.events_of(JobsAllocated)
    fulfilment = 100 * statistics.fmean(event.fulfilment for event in closed)
    return {
        "job": job,
        "seconds": round(statistics.fmean(event.seconds for event in closed), 6),
        "satisfaction": 100 * statistics.fmean(event.is_satisfied for event in closed),
        "fulfilment": round(fulfilment, 6),
        "drop": round(100 - fulfilment, 6),
        "occupancy": round(100 * statistics.fmean(event.occupancy for event in closed), 6),
        "late": sum(len(event.late) for event in closed),
        "allocations": len(allocations),
        "waived": sum(bool(event.waived) for event in allocations),
        "unproven": sum(event.bound < event.expected_seconds * (1 - _UNPROVEN) for event in allocations),
    }
