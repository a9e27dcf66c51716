"""A pool that goes on: which of its events still hold, and what is known of its jobs and of its money."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from paceline.errors import ConfigError
from paceline.events import Event
from paceline.topologies.base import Load
from paceline.topologies.events import STOPPED
from paceline.topologies.job_files import parse_job
from paceline.topologies.parallel.events import (
    JobEnded,
    JobSubmitted,
    LearnerPaid,
    PoolEnded,
    PoolStarted,
    RoundClosed,
    RunEndReason,
    UpdateAccepted,
)
from paceline.topologies.parallel.job_training import memory_name
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job


@dataclass(frozen=True, kw_only=True)
class KeptPool:
    """What is known of a pool from its record.

    Attributes:
        spent: sum paid.
        submitted: names of the jobs that are recorded as such.
        num_closed: number of the last round that counts, by job.
        ended: jobs that are over: why, and what there is to say of that.
    """

    spent: float = 0.0
    submitted: frozenset[str] = frozenset()
    num_closed: Mapping[str, int] = field(default_factory=dict)
    ended: Mapping[str, tuple[RunEndReason, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Sequence[Event], num_closed: Mapping[str, int]) -> KeptPool:
        """Sum up the events that are kept."""
        ended = {event.job: (event.reason, event.detail) for event in events if isinstance(event, JobEnded)}
        return cls(
            spent=math.fsum(event.amount for event in events if isinstance(event, LearnerPaid)),
            submitted=frozenset(event.job for event in events if isinstance(event, JobSubmitted)),
            num_closed=num_closed,
            ended=msgspec.convert(ended, dict[str, tuple[RunEndReason, str]]),
        )


NEW = KeptPool()
"""What is known of a pool that begins."""


def pool_events_to_keep(events: Sequence[Event], jobs: Mapping[str, Sequence[Event]]) -> list[Event]:
    """Choose the events of a pool that stay in its record when it goes on.

    A round counts if its job has recorded it as closed; what was paid for another is dropped, for that round happens
    again. Jobs that were stopped go on, and an end of the pool is none.

    Args:
        jobs: the events that each job keeps, by name.
    """
    last = {name: last_closed(of_job) for name, of_job in jobs.items()}

    def is_kept(event: Event) -> bool:
        match event:
            case LearnerPaid(job=job, round=round):
                return round <= last.get(job, 0)
            case JobEnded(job=job, reason=reason):
                return job in last and reason != STOPPED
            case JobSubmitted(job=job):
                return job in last
        return not isinstance(event, PoolEnded)

    return list(filter(is_kept, events))


def last_closed(events: Sequence[Event]) -> int:
    """Return the number of the last round that was closed; 0 if none was."""
    return max((event.round for event in events if isinstance(event, RoundClosed)), default=0)


def resumed_jobs(pool: Pool, events: Sequence[Event], load: Load) -> tuple[list[PreparedJob], KeptPool]:
    """Make the jobs of a pool ready to go on, in the order in which they came; raises `ConfigError` if none is left."""
    tables: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if isinstance(event, PoolStarted):
            tables |= event.jobs
    if not any(isinstance(event, PoolStarted) for event in events):
        raise ConfigError("the pool was interrupted before it began: nothing says which jobs it has; start it anew")
    tables |= {name: job.settings for name, job in load.jobs.items()}
    came = [event.job for event in events if isinstance(event, JobSubmitted)]
    names = dict.fromkeys([*(name for name in came if name in tables), *tables])
    kept = KeptPool.of(events, {name: last_closed(job.events) for name, job in load.jobs.items()})
    if not names.keys() - kept.ended.keys() and not pool.idle_seconds:
        raise ConfigError("all jobs of the pool are over; there is nothing to resume")
    prepared = []
    for name in names:
        job = parse_job(tables[name], f"job {name}")
        assert isinstance(job, Job)
        job = msgspec.structs.replace(job, allocation=pool.allocation)
        found = load.jobs.get(name)
        prepared.append(prepare_job(job) if found is None else resumed_job(job, found.events, found.load))
    return prepared, kept


def resumed_job(job: Job, events: Sequence[Event], load: Load) -> PreparedJob:
    """Make a job ready to go on after the last round that was closed, or to begin if none was."""
    closed, last = [event for event in events if isinstance(event, RoundClosed)], last_closed(events)
    # What does not travel is that of the start, whose file may be gone: the checkpoint has it, too.
    start = load(last) if last and job.model.start is not None else None
    deliveries = [event.learner for event in events if isinstance(event, UpdateAccepted)]
    history = [event.scores for event in closed if event.scores is not None]
    prepared = replace(prepare_job(job, start), history=history, deliveries=deliveries)
    if not last:
        return prepared
    memory = load(memory_name(last)) if job.aggregation.remembers else {}
    return replace(prepared, state=load(last), memory=memory)
