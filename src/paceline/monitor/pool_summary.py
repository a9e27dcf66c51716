"""Sums up a pool: from its events, and those of its jobs, to its figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from paceline.events import Event
from paceline.monitor.figures import Happening, LearnerSummary, Metrics, Summary
from paceline.monitor.footprint import Footprint
from paceline.monitor.pool_figures import Account, JobSummary, Move, PoolSummary, Stay
from paceline.monitor.pool_folder import PoolFolder
from paceline.monitor.summary import mean, summarise
from paceline.monitor.wording import setting
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.events import (
    JobEnded,
    JobsAllocated,
    JobSubmitted,
    LearnerPaid,
    PoolEnded,
    PoolStarted,
)


def summarise_pool(folder: PoolFolder) -> PoolSummary:
    """Sum up a pool, finished or not; raises `ConfigError` for events that contradict each other."""
    jobs = {name: summarise(job.events()) for name, job in folder.jobs().items()}
    return sum_up(folder.events(), jobs)


def sum_up(recorded: Iterable[Event], jobs: Mapping[str, Summary]) -> PoolSummary:
    """Sum up what happened in a pool.

    Args:
        jobs: the summaries of its jobs, by name.
    """
    draft = _Draft()
    for event in recorded:
        draft.add(event)
    return draft.finish(jobs)


class _LearnerDraft:
    """What a learner did, and where it is."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: dict[str, None] = {}  # in order
        self.lines: list[LearnerPaid] = []
        self.left_because: str | None = None
        self.last_job: str | None = None
        self._stay: tuple[str, int, float] | None = None  # job, shards, since
        self.stays: list[Stay] = []

    def place(self, placement: tuple[str, int] | None, at: float) -> None:
        """Put it into a job, or into none."""
        if self._stay is not None:
            job, num_shards, start = self._stay
            if placement == (job, num_shards):
                return
            if at > start:
                self.stays.append(Stay(learner=self.name, job=job, num_shards=num_shards, start=start, end=at))
        self._stay = None if placement is None else (*placement, at)
        if placement is not None:
            self.last_job = placement[0]
            self.jobs[placement[0]] = None

    def end(self, job: str, at: float) -> None:
        """Take it out of a job that is over."""
        if self._stay is not None and self._stay[0] == job:
            self.place(None, at)

    def finish(self, jobs: Iterable[LearnerSummary]) -> Account:
        """Its account; `jobs` tell what it did in each."""
        listed = list(jobs)
        return Account(
            learner=self.name,
            jobs=tuple(self.jobs),
            num_rounds=len(self.lines),
            num_unpaid=sum(line.num_samples == 0 for line in self.lines),
            num_shards=sum(line.num_shards for line in self.lines),
            shards=math.fsum(line.shards for line in self.lines),
            num_samples=sum(line.num_samples for line in self.lines),
            paid=math.fsum(line.amount for line in self.lines),
            footprint=Footprint.total(job.footprint for job in listed),
            power=next((job.power for job in listed if job.power is not None), None),
            left_because=self.left_because,
        )


class _Draft:
    """A summary in the making."""

    def __init__(self) -> None:
        self._started: PoolStarted | None = None
        self._ended: PoolEnded | None = None
        self._submitted: dict[str, JobSubmitted] = {}
        self._job_ends: dict[str, JobEnded] = {}
        self._amounts: dict[str, list[float]] = {}
        self._allocations: list[JobsAllocated] = []
        self._learners: dict[str, _LearnerDraft] = {}
        self._moves: list[Move] = []
        self._happenings: list[Happening] = []
        self._is_waiting = False
        self._last_at = 0.0

    def _learner(self, name: str) -> _LearnerDraft:
        draft = self._learners.get(name)
        if draft is None:
            draft = self._learners[name] = _LearnerDraft(name)
        return draft

    def add(self, event: Event) -> None:
        self._last_at = max(self._last_at, event.at)
        match event:
            case LearnerPaid():
                learner = self._learner(event.learner)
                learner.lines.append(event)
                learner.jobs[event.job] = None
                self._amounts.setdefault(event.job, []).append(event.amount)
            case JobsAllocated():
                self._add_allocation(event)
            case PoolStarted():
                self._started = event
            case PoolEnded():
                self._ended = event
            case JobSubmitted():
                self._submitted[event.job] = event
            case JobEnded():
                self._job_ends[event.job] = event
                for learner in self._learners.values():
                    learner.end(event.job, event.at)
            case LearnerJoined():
                self._learner(event.learner).left_because = None
            case LearnerLeft():
                learner = self._learner(event.learner)
                learner.left_because = event.reason
                learner.place(None, event.at)
            case WaitingForLearners():
                if not self._is_waiting:  # learners that measure themselves are ready on and off
                    self._happenings.append(Happening(event=event))
                self._is_waiting = True
        if isinstance(event, JobSubmitted | JobEnded | LearnerJoined | LearnerLeft):
            self._happenings.append(Happening(event=event))

    def _add_allocation(self, event: JobsAllocated) -> None:
        self._allocations.append(event)
        self._is_waiting = False
        for name, (job, _) in event.placements.items():
            last = self._learner(name).last_job
            if last is not None and last != job:
                self._moves.append(Move(at=event.at, learner=name, source=last, target=job))
        for name, learner in self._learners.items():
            learner.place(event.placements.get(name), event.at)

    def _finish_job(self, name: str, summary: Summary) -> JobSummary:
        return JobSummary(
            name=name,
            submitted=self._submitted[name],
            ended=self._job_ends.get(name),
            paid=math.fsum(self._amounts.get(name, ())),
            summary=summary,
            **summary.as_metrics(),
        )

    def finish(self, summaries: Mapping[str, Summary]) -> PoolSummary:
        nothing = summarise([])
        jobs = [self._finish_job(name, summaries.get(name, nothing)) for name in self._submitted]
        last_at = max([self._last_at, *(job.submitted.at + job.summary.seconds for job in jobs)])
        for learner in self._learners.values():
            learner.place(None, last_at)
        of_learner: dict[str, list[LearnerSummary]] = {}
        for job in jobs:
            for summary in job.summary.learners:
                of_learner.setdefault(summary.name, []).append(summary)
        accounts = tuple(learner.finish(of_learner.get(name, ())) for name, learner in self._learners.items())
        stays = [stay for learner in self._learners.values() for stay in learner.stays]
        budget = setting(self._started.pool, "pool", "total_budget") if self._started else None
        return PoolSummary(
            started=self._started,
            ended=self._ended,
            jobs=tuple(jobs),
            accounts=accounts,
            allocations=tuple(self._allocations),
            stays=tuple(sorted(stays, key=lambda stay: stay.start)),
            moves=tuple(self._moves),
            happenings=tuple(sorted([*_of_jobs(jobs), *self._happenings], key=lambda one: one.event.at)),
            spent=math.fsum(amount for amounts in self._amounts.values() for amount in amounts),
            total_budget=budget if isinstance(budget, int | float) else None,
            footprint=Footprint.total(account.footprint for account in accounts),
            seconds=last_at - (self._started.at if self._started else 0.0),
            **{name: mean(getattr(job, name) for job in jobs) for name in Metrics.__struct_fields__},
        )


def _of_jobs(jobs: Sequence[JobSummary]) -> list[Happening]:
    return [Happening(event=event, job=job.name) for job in jobs for event in job.summary.happenings]
