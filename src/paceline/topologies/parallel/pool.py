"""The orchestrator of several jobs: places learners in them, runs their rounds side by side, and pays for the work.

Time is cut into cycles. As a cycle begins, learners are placed in the jobs that are not over. Then each job runs its
rounds with its team, at its own pace, until learners are to be placed anew: because a job or a learner has come or
gone, or, if the policy wants that, after each round. Who has no open round to be in waits, or measures itself for jobs
that it does not know.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

import paceline
from paceline.allocation import Allocation, Assignment, Demand, Placement
from paceline.errors import ConfigError, DiskError, DivergedError
from paceline.events import Event
from paceline.topologies.access import Proof
from paceline.topologies.base import Environment, JobProgress, Outcome
from paceline.topologies.events import STOPPED, LearnerLeft
from paceline.topologies.job_files import parse_submitted
from paceline.topologies.parallel.events import JobEnded, JobsAllocated, JobSubmitted, PoolEnded, PoolStarted
from paceline.topologies.parallel.job_training import JobTraining
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.ledger import Ledger
from paceline.topologies.parallel.messages import Declaration, Offer, Ticket, Welcome
from paceline.topologies.parallel.orchestrator import LearnerSession, Orchestrator
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from paceline.topologies.parallel.reserve import ShardReserve, Taker
from paceline.topologies.sessions import POLL_SECONDS

MAX_JOBS = 100
"""Most jobs that may be in a pool at a time."""

_MAX_STATES = 100  # of a learner
_TOLERANCE = 1e-6  # of a sum of probabilities
_MUCH = 0.15  # change in the probability of a state, as far as is known, for which learners are placed anew


@dataclass
class PooledJob:
    """A job while it is in a pool.

    Attributes:
        team: its learners, and what they train in a round.
        spare: sum that a round may cost beyond what is planned, since others may do the work.
        is_over: whether there is no further round.
    """

    name: str
    training: JobTraining
    team: dict[str, Placement] = field(default_factory=dict)
    spare: float = 0.0
    is_over: bool = False

    @property
    def progress(self) -> JobProgress:
        """Progress of the job."""
        return self.training.progress("over" if self.is_over else "running" if self.team else "waiting", len(self.team))

    @property
    def allocation(self) -> dict[str, Allocation]:
        """Shards and local epochs of each of its learners."""
        local_epochs = self.training.prepared.terms.local_epochs
        return {name: Allocation(placement.num_shards, local_epochs) for name, placement in self.team.items()}


class JobPool(Orchestrator):
    """Trains several jobs.

    Args:
        jobs: jobs to begin with.
    """

    def __init__(self, pool: Pool, jobs: Sequence[PreparedJob], env: Environment) -> None:
        super().__init__(env)
        self._pool = pool
        self._policy = pool.allocation
        self._first = jobs
        self._by_name: dict[str, PooledJob] = {}
        self._diverged: list[str] = []  # jobs whose training diverged, and how
        self._heard_at: dict[str, float] = {}  # loop time of the last call, by learner
        # By session, the learners that were placed, or left idle, last; and how likely their states were then.
        self._considered: dict[str, dict[str, float]] = {}
        self._is_due = False  # learners are to be placed anew, as soon as the open rounds are closed
        self.ledger = Ledger(pool.total_budget)

    # The life of a pool.

    async def run(self, address: str) -> None:
        described, version = self._pool.described(), paceline.__version__
        self._record(PoolStarted, pool=described, clock=self.env.clock, paceline=version)
        for prepared in self._first:
            self._let_in(prepared)
        try:
            while not self.env.is_stopping() and await self._has_jobs():
                await self._until_settled()
                if not self.env.is_stopping():
                    await self._run_cycle()
        except DiskError as error:
            self._end(str(error))
            await self.drain()
            raise
        reason = STOPPED if self.env.is_stopping() else "all jobs are over"
        for job in self._open_jobs:
            self._end_job(job, STOPPED)
        self._end(self._record(PoolEnded, reason=reason, spent=self.ledger.spent).reason)
        if self._diverged:
            await self.drain()
            raise DivergedError("; ".join(self._diverged))

    @property
    def min_left(self) -> int:
        return 1

    def hear(self, event: Event) -> None:
        job = self._by_name.get(getattr(event, "job", ""))
        (self.env if job is None else job.training.env).emit(event)

    @property
    def outcome(self) -> Outcome:
        jobs = {name: job.training.outcome for name, job in self._by_name.items()}
        figures = {name: outcome.metrics for name, outcome in jobs.items()}
        return Outcome({}, {"jobs": figures, "spent": self.ledger.spent}, jobs)

    @property
    def _jobs(self) -> Iterable[JobTraining]:
        return [job.training for job in self._by_name.values()]

    @property
    def _open_jobs(self) -> list[PooledJob]:
        return [job for job in self._by_name.values() if not job.is_over]

    async def _has_jobs(self) -> bool:
        """Return whether there is a job, or comes one before the pool has been idle for too long."""
        await self._changes.until(lambda: bool(self._open_jobs), self._pool.idle_seconds)
        return bool(self._open_jobs)

    def _let_in(self, prepared: PreparedJob) -> PooledJob:
        spec, env = prepared.job, self.env.nested(prepared.job)
        job = self._by_name[spec.name] = PooledJob(spec.name, JobTraining(prepared, env, self._changes))
        self._record(
            JobSubmitted,
            job=job.name,
            rounds=spec.rounds,
            deadline_seconds=spec.deadline_seconds,
            num_shards=prepared.terms.num_shards,
        )
        job.training.start()
        self._is_due = True
        self._announce()  # whoever waits has something to measure
        return job

    async def _until_settled(self) -> None:
        """Wait for enough learners (to begin with, or for one at least), and a while for those that are expected."""
        least = 1 if self._considered else self._pool.min_learners
        while True:
            await self._until_ready(0, least)
            for session in list(self._roster):
                if session.key in self._considered and not session.is_ready and not self._is_expected(session):
                    self._drop(session.name)  # it was there before, and is gone
            expected = [self._heard_at[session.name] for session in self._roster if self._is_expected(session)]
            if not expected:
                return
            until = min(expected) + self._pool.patience_seconds
            await self._changes.until(
                lambda: not any(self._is_expected(session) for session in self._roster), until - self._time()
            )

    def _is_waiting_worth_reporting(self) -> bool:
        return not self._considered or not any(self._is_expected(session) for session in self._roster)

    def _is_expected(self, member: LearnerSession) -> bool:
        is_recent = self._time() < self._heard_at[member.name] + self._pool.patience_seconds
        return not member.is_ready and is_recent

    async def _run_cycle(self) -> None:
        jobs, ready = self._open_jobs, self._roster.ready
        demands = [
            Demand(job.name, job.training.prepared.terms, [session.as_candidate(job.name) for session in ready])
            for job in jobs
        ]
        self._is_due = False
        self._considered = {session.key: _probabilities(session) for session in ready}
        start = self._time()
        assignment = await self.env.run_blocking(lambda: self._policy.assign(demands, self.ledger.left))
        self._place(assignment, jobs, ready, self._time() - start)
        trained = [job for job in jobs if job.team]
        if not trained:
            for job in jobs:
                self._end_job(job, "budget spent")
            return
        await asyncio.gather(*(self._run_rounds(job) for job in trained))

    def _place(
        self, assignment: Assignment, jobs: Sequence[PooledJob], ready: Sequence[LearnerSession], solve_seconds: float
    ) -> None:
        placements = assignment.placements
        budget = math.inf if self._policy.budget is None else self._policy.budget
        spare = max(0.0, budget - assignment.cost) / len(jobs)
        for job in jobs:
            job.team = {name: placement for name, placement in placements.items() if placement.job == job.name}
            job.spare = spare
        self._record(
            JobsAllocated,
            placements={name: (placement.job, placement.num_shards) for name, placement in placements.items()},
            expected_seconds=assignment.seconds,
            bound=assignment.bound,
            cost=assignment.cost,
            solve_seconds=solve_seconds,
            idle=tuple(session.name for session in ready if session.name not in placements),
            waiting=assignment.waiting,
            waived=assignment.waived,
        )
        self._announce()  # learners move to their jobs

    async def _run_rounds(self, job: PooledJob) -> None:
        """Run rounds of a job until it is over, or learners are to be placed anew."""
        while True:
            try:
                has_run = await self._run_round(job)
            except DivergedError as error:  # the other jobs go on
                self._diverged.append(f"{job.name}: {error}")
                self._end_job(job, "diverged")
                has_run = False
            if not has_run:
                self._is_due = True
                return
            if job.training.why_over is not None:
                self._end_job(job, job.training.why_over)
                self._is_due = True
                return
            if self._policy.is_renewed or (self._is_due and self._pool.moves_learners):
                return

    async def _run_round(self, job: PooledJob) -> bool:
        """Run one round with those of the team who are there; False if none are, or they cannot be paid."""
        await self._unless_suspended()
        await self._changes.until(lambda: not any(map(self._may_come, self._absent(job))), self._pool.patience_seconds)
        absent = self._absent(job)
        present = {name: self._roster.named(name) for name in job.team if name not in absent}
        for name in absent:
            self._drop(name)
        prices = {name: member.price for name, member in present.items() if member is not None}
        cost = sum(job.team[name].num_shards * price for name, price in prices.items())
        await self._unless_suspended()
        if not present or not self.ledger.commit(job.name, cost, spare=job.spare):
            return False
        training = job.training
        opened = training.open(present, *self._portioned(job, prices))
        self._announce()
        seconds = await training.wait_until_over(opened)
        for name in opened.awaited:
            self._heard_at[name] = self._time()  # who is late by a moment may still come
        ruined = None
        try:
            await training.close(opened, seconds)
        except DivergedError as error:
            ruined = error
        at, shard_samples = round(self.env.now(), 6), training.prepared.terms.shard_samples
        for line in self.ledger.settle(job.name, opened, prices, shard_samples, at):
            self.env.emit(line)
        if ruined is not None:
            raise ruined
        self._is_due |= bool(opened.failed_audit)
        self._exclude_failed(opened)
        return True

    def _portioned(
        self, job: PooledJob, prices: Mapping[str, float]
    ) -> tuple[dict[str, Allocation], ShardReserve | None]:
        """Return what each of the team gets as a round opens, and the reserve of what is held back."""
        if not self._policy.held_share or len(prices) < 2:
            return job.allocation, None
        first, takers, num_held = job.allocation, {}, 0
        for name, price in prices.items():
            placement = job.team[name]
            num_first = math.ceil((1 - self._policy.held_share) * placement.num_shards)
            num_held += placement.num_shards - num_first
            first[name] = Allocation(num_first, first[name].local_epochs)
            takers[name] = Taker(
                num_shards=num_first,
                num_last=num_first,
                shard_seconds=placement.shard_seconds,
                price=price,
                began_at=placement.fixed_seconds,
            )
        budget, due_seconds = self.ledger.committed(job.name), job.training.prepared.job.deadline_seconds
        return first, ShardReserve(num_held, takers, budget=budget, due_seconds=due_seconds)

    def _absent(self, job: PooledJob) -> list[str]:
        """Return those of a team that do not wait for its next round."""
        members = {name: self._roster.named(name) for name in job.team}
        return [name for name, at in members.items() if at is None or not at.is_ready or at.job != job.name]

    def _drop(self, name: str) -> None:
        """Do without a learner that should be there; if it is late only, it will join again."""
        self._is_due = True
        member = self._roster.named(name)
        if member is not None:
            self._roster.remove(member)
            self._record(LearnerLeft, learner=name, reason="nothing was heard of it")

    def _may_come(self, name: str) -> bool:
        member = self._roster.named(name)
        return member is not None and (member.is_ready or self._is_expected(member))

    def _end_job(self, job: PooledJob, reason: Any) -> None:
        job.is_over, job.team = True, {}
        ended = job.training.end(reason)
        self._record(
            JobEnded, job=job.name, reason=ended.reason, rounds=ended.rounds, loss=ended.loss, metrics=ended.metrics
        )
        self._changes.notify()

    def _announce(self) -> None:
        """Wake all who wait."""
        self._changes.notify()
        self._openings.notify()

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    # What those who have jobs call.

    async def submit(self, tables: dict[str, Any]) -> str:
        if self._ended is not None:
            raise ValueError("all jobs of this pool are over; it takes no other")
        if len(self._open_jobs) >= MAX_JOBS:
            raise ValueError(f"{MAX_JOBS} jobs are in this pool; wait until one is over")
        prepared = await self.env.run_blocking(lambda: self._admit(tables))
        if prepared.job.name in self._by_name:
            raise ValueError(f"there is a job {prepared.job.name!r} in this pool already; names must differ")
        if self.env.access is not None:
            self.env.access.submitted(prepared.job.name)
        return self._let_in(prepared).name

    def _admit(self, tables: dict[str, Any]) -> PreparedJob:
        try:
            job = parse_submitted(tables, Pool)
            if not isinstance(job, Job):
                raise ConfigError(f"a pool takes ordinary jobs, which have a [{Job.table}] table")
            self._pool.check_job(job)
            prepared = prepare_job(msgspec.structs.replace(job, allocation=self._policy))
            self._pool.check_size(prepared.largest_bytes)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return prepared

    def _progress_of(self, job: JobTraining) -> JobProgress:
        return self._by_name[job.prepared.job.name].progress

    # What learners call.

    async def join(self, learner: str, version: str, price: float, proof: Proof | None = None) -> Welcome:
        welcome = await super().join(learner, version, price, proof)
        self._heard_at[learner] = self._time()
        return welcome

    def _offer_first(self, session: LearnerSession) -> Offer | None:
        first = next(iter(self._open_jobs), None)
        if first is None:
            return None
        session.job = first.name
        return first.training.prepared.offer

    async def declare(self, session: str, declaration: Declaration) -> None:
        found = self._find(session)
        total = sum(outlook.probability for outlook in declaration.outlook)
        if not declaration.outlook or len(declaration.outlook) > _MAX_STATES or abs(total - 1) > _TOLERANCE:
            raise ValueError(
                f"{len(declaration.outlook)} states whose probabilities add up to {total:g}; "
                f"allowed: 1 to {_MAX_STATES} states whose probabilities add up to 1"
            )
        likely = {outlook.state: outlook.probability for outlook in declaration.outlook}
        for job, known in found.declarations.items():  # how likely its states are is the same in all jobs
            found.declarations[job] = _with_probabilities(known, likely)
        found.declarations[found.job] = declaration
        placed_with = self._considered.get(found.key, likely)
        if any(abs(likely[state] - placed_with.get(state, 0.0)) > _MUCH for state in likely):
            self._is_due = True

    async def next_round(self, session: str, after: int, state: str | None) -> Ticket:
        found, until = self._find(session), self._time() + POLL_SECONDS
        found.state = state
        if found.job in self._by_name:
            training = self._by_name[found.job].training
            if training.round is not None and training.round.number <= after:
                training.give_up(found.name)
        while True:
            ticket = self._ticket(found, after)
            if ticket is None and self._time() >= until:
                ticket = Ticket(status="wait", reason="no round is open")
            if ticket is not None:
                self._roster.set_ready(found, False)
                self._changes.notify()
                return ticket
            if found.key not in self._considered:
                self._is_due = True
            self._roster.set_ready(found, True)
            self._changes.notify()
            await self._wait_for_opening(found, until - self._time())

    def _ticket(self, session: LearnerSession, after: int) -> Ticket | None:
        """Return what a learner is to do next; None if there is nothing to do yet."""
        if self._ended is not None:
            self._roster.remove(session)
            return Ticket(status="over", reason=self._ended)
        placed = next((job for job in self._open_jobs if session.name in job.team), None)
        if placed is not None and placed.name == session.job:
            ticket = self._ticket_to(placed.training, session, after)
            if ticket is not None:
                return ticket
        unknown = next((job for job in self._open_jobs if job.name not in session.declarations), None)
        to = unknown or placed
        if to is None or (unknown is None and to.name == session.job):
            return None
        session.job = to.name
        return Ticket(status="move", offer=to.training.prepared.offer)

    def _part_with(self, session: LearnerSession, reason: str) -> None:
        super()._part_with(session, reason)
        self._is_due = True

    def _find(self, session: str) -> LearnerSession:
        found = super()._find(session)
        self._heard_at[found.name] = self._time()
        return found

    def _training_of(self, session: LearnerSession) -> JobTraining:
        job = self._by_name.get(session.job)
        if job is None:
            raise ValueError(f"{session.name} is in no job")
        return job.training

    def _lose(self, session: LearnerSession) -> None:
        self._heard_at[session.name] = -math.inf
        super()._lose(session)


def _probabilities(member: LearnerSession) -> dict[str, float]:
    declaration = member.declarations.get(member.job) or Declaration()
    return {outlook.state: outlook.probability for outlook in declaration.outlook}


def _with_probabilities(declaration: Declaration, likely: Mapping[str, float]) -> Declaration:
    if {outlook.state for outlook in declaration.outlook} != likely.keys():
        return declaration
    outlook = [msgspec.structs.replace(one, probability=likely[one.state]) for one in declaration.outlook]
    return msgspec.structs.replace(declaration, outlook=tuple(outlook))
