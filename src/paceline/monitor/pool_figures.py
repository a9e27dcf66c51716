"""The figures of a pool: what its jobs, learners and money came to, as plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from paceline.monitor.figures import Happening, Metrics, Summary
from paceline.monitor.footprint import Footprint
from paceline.topologies.parallel.events import JobEnded, JobsAllocated, JobSubmitted, PoolEnded, PoolStarted


class JobSummary(Metrics, frozen=True, kw_only=True):
    """A job of a pool, with its metrics.

    Attributes:
        ended: None while it is under way.
        paid: for its rounds so far.
        summary: of the job as a run.
    """

    name: str
    submitted: JobSubmitted
    ended: JobEnded | None
    paid: float
    summary: Summary


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger of one learner.

    Attributes:
        jobs: that it was placed in or paid for, in that order.
        num_rounds: in which it took work, as far as they are accounted for.
        num_unpaid: of those, the ones in which nothing of it counted.
        num_shards: allocated to it in those rounds.
        shards: of those, trained and paid for; parts count.
        num_samples: of its updates, passes counted.
        footprint: what its rounds of all jobs used up, as far as told.
        power: what its energy is told by, as `DeviceMeasured` has it; None if not told.
        left_because: why it was not there at the end, None if it was.
    """

    learner: str
    jobs: tuple[str, ...]
    num_rounds: int
    num_unpaid: int
    num_shards: int
    shards: float
    num_samples: int
    paid: float
    footprint: Footprint
    power: dict[str, Any] | None
    left_because: str | None


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """A time for which a learner was placed in a job with the same number of shards, in seconds of the pool."""

    learner: str
    job: str
    num_shards: int
    start: float
    end: float


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A learner was placed in another job than the one it was in last."""

    at: float
    learner: str
    source: str
    target: str


class PoolSummary(Metrics, frozen=True, kw_only=True):
    """What a pool came to; its metrics are means over the jobs that have closed a round.

    Attributes:
        started: None if nothing was recorded.
        ended: None for a pool that is under way or was interrupted.
        jobs: in the order in which they came.
        accounts: of all learners, in the order in which they were first heard of.
        allocations: as they were told.
        stays: by when they began.
        happenings: jobs and learners that came and went, refusals and cheats, in order.
        spent: paid so far.
        total_budget: None for no limit.
        footprint: of all learners that told theirs.
        seconds: from the start to the last event of the pool or a job.
    """

    started: PoolStarted | None
    ended: PoolEnded | None
    jobs: tuple[JobSummary, ...]
    accounts: tuple[Account, ...]
    allocations: tuple[JobsAllocated, ...]
    stays: tuple[Stay, ...]
    moves: tuple[Move, ...]
    happenings: tuple[Happening, ...]
    spent: float
    total_budget: float | None
    footprint: Footprint
    seconds: float
