"""A pool that goes on: which of its events still hold, and what is known of its jobs and of its money."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from paceline.errors import ConfigError, NothingToResume
from paceline.events import Event
from paceline.topologies.base import Load, Recovered
from paceline.topologies.events import STOPPED
from paceline.topologies.job_files import parse_job
from paceline.topologies.parallel.events import (
    JobEnded,
    JobSubmitted,
    LearnerPaid,
    PoolEnded,
    PoolStarted,
    RunEndReason,
)
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from paceline.topologies.parallel.resuming import last_closed, prepare_resumed


@dataclass(frozen=True, kw_only=True)
class KeptPool:
    """What is known of a pool from its record.

    Attributes:
        spent: sum paid.
        submitted: names of the jobs that are recorded as such.
        num_closed: number of the last round that counts, by job.
        ended: jobs that are over: why, and what there is to say of that.
        untold: names of those whose own record does not have it.
    """

    spent: float = 0.0
    submitted: frozenset[str] = frozenset()
    num_closed: Mapping[str, int] = field(default_factory=dict)
    ended: Mapping[str, tuple[RunEndReason, str]] = field(default_factory=dict)
    untold: frozenset[str] = frozenset()

    @classmethod
    def of(cls, events: Sequence[Event], jobs: Mapping[str, Recovered]) -> KeptPool:
        """Sum up the events that are kept."""
        ended = {event.job: (event.reason, event.detail) for event in events if isinstance(event, JobEnded)}
        return cls(
            spent=math.fsum(event.amount for event in events if isinstance(event, LearnerPaid)),
            submitted=frozenset(event.job for event in events if isinstance(event, JobSubmitted)),
            num_closed={name: last_closed(job.events) for name, job in jobs.items()},
            ended=msgspec.convert(ended, dict[str, tuple[RunEndReason, str]]),
            untold=frozenset(name for name in ended if not jobs[name].is_over),
        )


NEW = KeptPool()
"""What is known of a pool that begins."""


def recover_pool(events: Sequence[Event], load: Load) -> Recovered:
    """Choose the events of a pool that stay in its record when it goes on; see `Topology.recover`.

    A round counts if its job goes on after it, or does not go on; what was paid for another is dropped, for that round
    happens again. Jobs that were stopped go on, and an end of the pool is none.
    """
    last = {name: last_closed(job.recovered.events) for name, job in load.jobs.items()}
    ends = [event for event in events if isinstance(event, JobEnded)]
    over = {event.job for event in ends if event.job in last and event.reason != STOPPED}

    def is_kept(event: Event) -> bool:
        match event:
            case LearnerPaid(job=job, round=round):
                return job in over or round <= last.get(job, 0)  # what fails has no last round, and is paid for
            case JobEnded(job=job):
                return job in over
            case JobSubmitted(job=job):
                return job in last
        return not isinstance(event, PoolEnded)

    lost = [one for job in load.jobs.values() for one in job.recovered.lost]
    is_over = any(isinstance(event, PoolEnded) for event in events)
    return Recovered(list(filter(is_kept, events)), lost, is_over=is_over)


def resumed_jobs(pool: Pool, recovered: Recovered, load: Load) -> tuple[list[PreparedJob], KeptPool]:
    """Make the jobs of a pool ready to go on, in the order in which they came; raises `ConfigError` if none is left."""
    events, tables = recovered.events, dict[str, Mapping[str, Any]]()
    for event in events:
        if isinstance(event, PoolStarted):
            tables |= event.jobs
    if not any(isinstance(event, PoolStarted) for event in events):
        raise ConfigError("the pool was interrupted before it began: nothing says which jobs it has; start it anew")
    tables |= {name: job.settings for name, job in load.jobs.items()}
    came = [event.job for event in events if isinstance(event, JobSubmitted)]
    names = dict.fromkeys([*(name for name in came if name in tables), *tables])
    kept = KeptPool.of(events, {name: job.recovered for name, job in load.jobs.items()})
    if recovered.is_over and not names.keys() - kept.ended.keys() and not pool.idle_seconds:
        raise NothingToResume("all jobs of the pool are over; there is nothing to resume")
    prepared = []
    for name in names:
        job = parse_job(tables[name], f"job {name}")
        assert isinstance(job, Job)
        job = msgspec.structs.replace(job, allocation=pool.allocation)
        last = kept.num_closed.get(name, 0)
        prepared.append(prepare_resumed(job, last, load.jobs[name].load) if last else prepare_job(job))
    return prepared, kept
