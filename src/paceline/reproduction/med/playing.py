"""Trials of the schemes, and the rows that they give: one for each job."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.averaging import State
from paceline.reproduction.med.setting import SCHEMES, policy_of
from paceline.reproduction.rows import Row
from paceline.reproduction.trials import PoolTrial, play_pool
from paceline.topologies.multitask import PoolSpec
from paceline.topologies.parallel import Plan
from paceline.topologies.parallel.events import JobsAllocated, RoundClosed

_UNPROVEN = 1e-6  # of the expected seconds, by which the bound may be below them


class Case(NamedTuple):
    """What all schemes are tried on: jobs, devices, the budget of a round of all jobs, and the seed of the states."""

    plans: Sequence[tuple[Plan, State]]
    devices: Sequence[VirtualDevice]
    budget: float
    seed: int


def play(case: Case, scheme: str, *, is_time_only: bool = True) -> PoolTrial:
    """One trial on virtual time. Learners stay where they are placed first, unless the scheme wants it otherwise."""
    spec = PoolSpec(
        allocation=policy_of(scheme, case.budget),
        min_learners=len(case.devices),
        moves_learners=False,
        seed=case.seed,
    )
    return play_pool(spec, case.plans, VirtualFleet(case.devices, is_time_only=is_time_only))


def time_rows(case: Case) -> Iterator[Row]:
    """A row per scheme and job, without gradients: none of this depends on them."""
    for scheme in SCHEMES:
        trial = play(case, scheme)
        for job in trial.jobs:
            yield {"part": "time", "scheme": scheme, **job_row(trial, job), "accuracy": None, "apart": None}


def learning_rows(case: Case) -> Iterator[Row]:
    """The same with gradients; `apart` is the most that a round's seconds differ from those without."""
    for scheme in SCHEMES:
        timed, trial = play(case, scheme), play(case, scheme, is_time_only=False)
        for job in trial.jobs:
            rounds = zip(timed.told(RoundClosed, job), trial.told(RoundClosed, job), strict=True)
            yield {
                "part": "learning",
                "scheme": scheme,
                **job_row(trial, job),
                "accuracy": 100 * (trial.told(RoundClosed, job)[-1].accuracy or 0.0),
                "apart": max(abs(one.seconds - other.seconds) for one, other in rounds),
            }


def job_row(trial: PoolTrial, job: str) -> Row:
    """What a job's rounds were like on average, and whether all went as the scheme wants it."""
    closed, allocations = trial.told(RoundClosed, job), trial.told(JobsAllocated)
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
