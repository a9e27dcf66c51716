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
from dataclasses import replace
from typing import Any

import paceline
from paceline.allocation import Assignment, Demand
from paceline.devices.profiles import StateName
from paceline.errors import ConfigError, DiskError, DivergedError, PacelineError, in_one_line
from paceline.events import Event
from paceline.topologies.access import Proof
from paceline.topologies.base import Environment, JobProgress, Outcome, save_nothing
from paceline.topologies.events import STOPPED, LearnerLeft
from paceline.topologies.parallel.admission import admit
from paceline.topologies.parallel.events import (
    JobEnded,
    JobsAllocated,
    JobSubmitted,
    PoolEnded,
    PoolStarted,
    RunEndReason,
    TrainingFailed,
)
from paceline.topologies.parallel.job_training import JobTraining
from paceline.topologies.parallel.jobs import Pool
from paceline.topologies.parallel.ledger import Ledger
from paceline.topologies.parallel.messages import Declaration, Offer, Ticket, Welcome
from paceline.topologies.parallel.orchestrator import MAX_TEXT, LearnerSession, Orchestrator
from paceline.topologies.parallel.placer import Placer
from paceline.topologies.parallel.pool_resuming import NEW, KeptPool
from paceline.topologies.parallel.pooled_job import PooledJob
from paceline.topologies.parallel.prepared import PreparedJob
from paceline.topologies.parallel.rounds import OpenRound
from paceline.topologies.sessions import POLL_SECONDS

MAX_JOBS = 100
"""Most jobs that may be in a pool at a time."""

_TOLERANCE = 1e-6  # of a sum of probabilities
_MUCH = 0.15  # change in the probability of a state, as far as is known, for which learners are placed anew


_OF_THE_JOB = (ConfigError, MemoryError, RuntimeError)  # errors by which a round ends its job, and no other
_NO_RESULT: frozenset[RunEndReason | None] = frozenset(("diverged", "failed", "infeasible"))


class JobPool(Orchestrator):
    """Trains several jobs.

    Args:
        jobs: jobs to begin with.
        kept: what is known of a pool that goes on.
    """

    def __init__(self, pool: Pool, jobs: Sequence[PreparedJob], env: Environment, kept: KeptPool = NEW) -> None:
        super().__init__(env)
        self._pool = pool
        self._policy = pool.allocation
        self._first = jobs
        self._by_name: dict[str, PooledJob] = {}
        self._kept = kept
        self._admitting = asyncio.Lock()
        self._heard_at: dict[str, float] = {}  # loop time of the last call, by learner
        # By session, the learners that were placed, or left idle, last; and how likely their states were then.
        self._considered: dict[str, dict[str, float]] = {}
        self._is_due = False  # learners are to be placed anew, as soon as the open rounds are closed
        self.ledger = Ledger(pool.total_budget, kept.spent)
        self._placer = Placer(pool.allocation, self.ledger)

    # The life of a pool.

    async def run(self, address: str) -> None:
        self._record(
            PoolStarted,
            pool=self._pool.described(),
            clock=self.env.clock,
            paceline=paceline.__version__,
            jobs={prepared.job.name: prepared.job.described() for prepared in self._first},
        )
        for prepared in self._first:
            self._let_in(prepared)
        try:
            while not self.env.is_stopping() and await self._has_jobs():
                await self._until_settled()
                if self._has_work:
                    await self._run_cycle()
        except DiskError as error:
            self._end(str(error))
            await self.drain()
            raise
        reason = STOPPED if self.env.is_stopping() else "all jobs are over"
        for job in self._open_jobs:
            self._end_job(job, STOPPED)
        self._end(self._record(PoolEnded, reason=reason, spent=self.ledger.spent).reason)
        await self._raise_what_failed()

    async def _raise_what_failed(self) -> None:
        """Raise how training diverged, if it did in any job; or, if no job has a result, why."""
        ended = list(self._by_name.values())
        diverged = [job for job in ended if job.end_reason == "diverged"]
        if not diverged and not (ended and all(job.end_reason in _NO_RESULT for job in ended)):
            return
        await self.drain()
        said = [f"{job.name}: {job.end_detail or job.end_reason}" for job in diverged or ended]
        raise (DivergedError if diverged else PacelineError)("; ".join(said))

    @property
    def min_left(self) -> int:
        return 1

    def note(self, event: Event) -> None:
        if isinstance(event, TrainingFailed):
            return  # it was reported, too
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

    @property
    def _has_work(self) -> bool:
        return super()._has_work and bool(self._open_jobs)

    async def _has_jobs(self) -> bool:
        """Return whether there is a job, or comes one before the pool has been idle for too long."""
        await self._changes.until(lambda: bool(self._open_jobs), self._pool.idle_seconds)
        return bool(self._open_jobs)

    def _let_in(self, prepared: PreparedJob) -> PooledJob:
        spec, kept = prepared.job, self._kept
        is_over = spec.name in kept.ended
        silent = replace(self.env, emit=lambda event: None, save=save_nothing)
        is_told = is_over and spec.name not in kept.untold
        env = silent if is_told else self.env.nested(spec)
        training = JobTraining(prepared, env, self._changes, kept.num_closed.get(spec.name, 0) + 1)
        job = self._by_name[spec.name] = PooledJob(spec.name, training)
        if is_over:
            job.is_over, (job.end_reason, job.end_detail) = True, kept.ended[spec.name]
            if not is_told:
                training.start()
                training.end(kept.ended[spec.name][0])
            return job
        if spec.name not in kept.submitted:
            self._record(
                JobSubmitted,
                job=job.name,
                rounds=spec.rounds,
                deadline_seconds=spec.deadline_seconds,
                num_shards=prepared.terms.num_shards,
            )
        training.start()
        if spec.name in kept.num_closed and training.why_over is not None:
            self._end_job(job, training.why_over)  # it was interrupted in between
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
        self._considered = {session.key: self._probabilities_of(session) for session in ready}
        start = self._time()
        assignment: Assignment = await self.env.run_blocking(lambda: self._placer.assign(demands))
        jobs = [job for job in jobs if not job.is_over]  # it may have been cancelled meanwhile
        self._place(assignment, jobs, ready, self._time() - start)
        trained = [job for job in jobs if job.team]
        if trained:
            await asyncio.gather(*(self._run_rounds(job) for job in trained))
        else:
            await self._give_up_on(demands, assignment)

    async def _give_up_on(self, demands: Sequence[Demand], assignment: Assignment) -> None:
        """End jobs that nobody can be placed in: at once if all they lack is money, else if nothing changes for long.

        Args:
            demands: those of the open jobs.
        """
        hindered: Mapping[str, str] = assignment.hindered
        lacking = await self.env.run_blocking(lambda: self._placer.lacking_money(demands, hindered))
        for job in self._open_jobs:
            if job.name in lacking:
                self._end_job(job, "budget spent", hindered[job.name])
        names = [demand.job for demand in demands]
        await self._changes.until(
            lambda: self._is_due or self.env.is_stopping() or not self._open_jobs, self._pool.patience_seconds
        )
        if self._is_due or self.env.is_stopping():
            return
        for job in self._open_jobs:
            if job.name in names:
                self._end_job(job, "infeasible", hindered.get(job.name, assignment.failure))

    def _place(
        self, assignment: Assignment, jobs: Sequence[PooledJob], ready: Sequence[LearnerSession], solve_seconds: float
    ) -> None:
        open_names = {job.name for job in jobs}
        placements = {name: one for name, one in assignment.placements.items() if one.job in open_names}
        self._placer.last = placements or self._placer.last
        budget = math.inf if self._policy.budget is None else self._policy.budget
        spare = max(0.0, budget - assignment.cost) / max(len(jobs), 1)
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
            hindered=dict(assignment.hindered),
            waived=assignment.waived,
            failure=assignment.failure,
        )
        self._announce()  # learners move to their jobs

    async def _run_rounds(self, job: PooledJob) -> None:
        """Run rounds of a job until it is over, or learners are to be placed anew."""
        job.is_in_rounds = True
        while job.end_reason is None:
            try:
                has_run = await self._run_round(job)
            except DivergedError as error:  # the other jobs go on
                job.end_reason, job.end_detail = "diverged", str(error)
            except _OF_THE_JOB as error:
                job.end_reason, job.end_detail = "failed", in_one_line(error)
            else:
                if job.end_reason is None:
                    job.end_reason = job.training.why_over
                self._is_due |= not has_run
                if not has_run or self._policy.is_renewed or (self._is_due and self._pool.moves_learners):
                    break
        job.is_in_rounds = False
        if job.end_reason is not None:
            self._end_job(job, job.end_reason, job.end_detail)

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
        if job.end_reason is not None or not present or not self.ledger.commit(job.name, cost, spare=job.spare):
            return False
        training = job.training
        opened = training.open(
            present, *job.portioned(prices, self._policy.held_share, self.ledger.committed(job.name))
        )
        self._announce()
        seconds = await training.wait_until_over(opened)
        for name in opened.awaited:
            self._heard_at[name] = self._time()  # who is late by a moment may still come
        try:
            await training.close(opened, seconds, lambda: self._settle(job, opened, prices))
        except (DivergedError, *_OF_THE_JOB):  # whose fault that is, is not known
            if self.ledger.is_committed(job.name):
                self._settle(job, opened, prices)
            raise
        job.trained_by |= opened.delivered.keys()
        self._is_due |= bool(opened.failed_audit)
        self._exclude_failed(opened)
        return True

    def _settle(self, job: PooledJob, opened: OpenRound, prices: Mapping[str, float]) -> None:
        """Pay for a round; called before it is saved and recorded as closed, which says that this was paid."""
        at, shard_samples = round(self.env.now(), 6), job.training.prepared.terms.shard_samples
        for line in self.ledger.settle(job.name, opened, prices, shard_samples, at):
            self.env.emit(line)

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

    def _end_soon(self, job: PooledJob, reason: RunEndReason, detail: str = "") -> None:
        """End a job, at once or, if it has an open round, with what came of that so far."""
        job.end_reason, job.end_detail, job.team = reason, detail, {}
        if not job.is_in_rounds:
            self._end_job(job, reason, detail)
        elif job.training.round is not None:
            for name in list(job.training.round.awaited):
                job.training.give_up(name)
        self._is_due = True
        self._announce()

    def _end_job(self, job: PooledJob, reason: RunEndReason, detail: str = "") -> None:
        job.is_over, job.team, job.end_reason, job.end_detail = True, {}, reason, detail
        for session in self._roster:
            session.declarations.pop(job.name, None)
        self._is_due = True
        ended = job.training.end(reason)
        self._record(
            JobEnded,
            job=job.name,
            reason=ended.reason,
            rounds=ended.rounds,
            loss=ended.loss,
            metrics=ended.metrics,
            detail=detail,
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
        async with self._admitting:  # one at a time: each takes memory
            prepared = await self.env.run_blocking(lambda: admit(tables, self._pool))
        if prepared.job.name in self._by_name:
            raise ValueError(f"there is a job {prepared.job.name!r} in this pool already; names must differ")
        if self.env.access is not None:
            self.env.access.submitted(prepared.job.name)
        return self._let_in(prepared).name

    async def cancel(self, job: str) -> JobProgress:
        self._named(job)
        found = self._by_name[job]
        if found.is_over:
            raise ValueError(f"job {job!r} is over already: {found.end_reason}")
        self._end_soon(found, "cancelled")
        await self._changes.until(lambda: found.is_over, POLL_SECONDS)
        return found.progress

    def _progress_of(self, job: JobTraining) -> JobProgress:
        return self._by_name[job.prepared.job.name].progress

    # What learners call.

    async def join(self, learner: str, version: str, price: float, proof: Proof | None = None) -> Welcome:
        welcome = await super().join(learner, version, price, proof)
        self._heard_at[learner] = self._time()
        return welcome

    def _offer_first(self, session: LearnerSession) -> Offer | None:
        first = next((job for job in self._open_jobs if not job.is_barred_to(session.name)), None)
        if first is None:
            return None
        session.job = first.name
        return first.training.prepared.offer

    async def declare(self, session: str, declaration: Declaration) -> None:
        found = self._find(session)
        total = sum(outlook.probability for outlook in declaration.outlook)
        if not declaration.outlook or abs(total - 1) > _TOLERANCE:
            raise ValueError(
                f"{len(declaration.outlook)} states whose probabilities add up to {total:g}; "
                "allowed: at least one, and probabilities that add up to 1"
            )
        likely = declaration.probabilities
        for job, known in found.declarations.items():  # how likely its states are is the same in all jobs
            found.declarations[job] = known.with_probabilities(likely)
        found.declarations[found.job] = declaration
        placed_with = self._considered.get(found.key, likely)
        if any(abs(likely[state] - placed_with.get(state, 0.0)) > _MUCH for state in likely):
            self._is_due = True

    @staticmethod
    def _probabilities_of(session: LearnerSession) -> dict[str, float]:
        return session.declarations.get(session.job, Declaration()).probabilities

    async def next_round(self, session: str, after: int, state: StateName | None) -> Ticket:
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
        untried = (job for job in self._open_jobs if job.name not in session.declarations)
        unknown = next((job for job in untried if not job.is_barred_to(session.name)), None)
        to = unknown or placed
        if to is None or (unknown is None and to.name == session.job):
            return None
        session.job = to.name
        return Ticket(status="move", offer=to.training.prepared.offer)

    async def report_failure(self, session: str, round: int, reason: str) -> bool:
        found = self._find(session)
        job = self._by_name.get(found.job)
        if job is not None and not job.is_over:
            job.failures[found.name] += 1
            failed = {"job": job.name, "round": round, "learner": found.name}
            said = self._record(TrainingFailed, **failed, reason=reason[:MAX_TEXT])
            found.declarations.pop(job.name, None)
            job.training.give_up(found.name)
            if job.is_barred_to(found.name):
                job.team.pop(found.name, None)
                self._is_due = True
            if job.has_failed([other.name for other in self._roster]):
                self._end_soon(job, "failed", said.reason)
        found.job = ""
        self._announce()
        return True

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
