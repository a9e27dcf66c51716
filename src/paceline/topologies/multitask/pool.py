"""The orchestrator of several jobs: places learners in them, plays their rounds side by side, and pays for the work.

Time is cut into cycles. As a cycle begins, learners are placed in the jobs that are not over. Then each job plays its
rounds with its team, at its own pace, until learners are to be placed anew: because a job or a learner has come or
gone, or, if the policy wants that, after each round. Who has no open round to be in waits, or measures itself for jobs
that it does not know.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
import torch

import paceline
from paceline.allocation import Allocation, Assignment, Demand
from paceline.axon import loops
from paceline.events import Event
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.multitask.jobs import Admitted, PoolSpec, SharedJob
from paceline.topologies.multitask.ledger import Ledger
from paceline.topologies.multitask.messages import JobProgress, PoolService
from paceline.topologies.parallel.conductor import Conductor
from paceline.topologies.parallel.course import Course, Surroundings
from paceline.topologies.parallel.events import JobEnded, JobsAllocated, JobSubmitted, PoolEnded, PoolStarted
from paceline.topologies.parallel.messages import Receipt, Standing, Ticket, Welcome, Work
from paceline.topologies.parallel.orchestrator import (
    CHEATED,
    FAREWELL_SECONDS,
    POLL_SECONDS,
    check_version,
    filling,
)
from paceline.topologies.parallel.pots import Mate, Pot
from paceline.topologies.parallel.roster import Member, Roster

MAX_JOBS = 100
"""That may be in a pool at a time."""

_MAX_STATES = 100  # of a learner
_TOLERANCE = 1e-6  # of a sum of probabilities
_MUCH = 0.15  # that the probability of a state must have changed by, as far as is known, to place learners anew


class Pool(Conductor, PoolService):
    """Several jobs and whoever joins. `run` is its life; the other methods are called from elsewhere.

    Args:
        jobs: to begin with.
        admit: makes a job of the tables of a job file; raises `ValueError` with a reason for one that cannot be.
    """

    calls: ClassVar[frozenset[str]] = PoolService.__abstractmethods__

    def __init__(
        self,
        spec: PoolSpec,
        jobs: Sequence[Admitted],
        around: Surroundings,
        admit: Callable[[dict[str, Any]], Admitted],
    ) -> None:
        self._spec = spec
        self._policy = spec.allocation
        self._first = jobs
        self._around = around
        self._admit = admit
        self._jobs: dict[str, SharedJob] = {}
        self._roster = Roster()
        self._heard_at: dict[str, float] = {}  # loop time of the last call, by learner
        # By session, the learners that were placed, or left idle, last; and how likely their states were then.
        self._considered: dict[str, dict[str, float]] = {}
        self._is_due = False  # learners are to be placed anew, as soon as the open rounds are closed
        self._changed = asyncio.Event()
        self._opening: asyncio.Future[None] | None = None  # of whatever learners wait for
        self._origin = 0.0
        self.ledger = Ledger(spec.total_budget)
        self.ended: PoolEnded | None = None

    # The life of a pool.

    async def run(self) -> None:
        self._origin = self._time() - self._around.started_at
        self._emit(
            PoolStarted(
                at=self.now(), pool=self._spec.described(), clock=self._around.clock, paceline=paceline.__version__
            )
        )
        for admitted in self._first:
            self._let_in(admitted)
        while await self._has_jobs():
            await self._until_settled()
            await self._play_cycle()
        self.ended = PoolEnded(at=self.now(), reason="all jobs are over", spent=self.ledger.spent)
        self._emit(self.ended)
        self._announce()

    async def farewell(self) -> None:
        await self._wait(lambda: self._roster.are_all_told, FAREWELL_SECONDS)

    def now(self) -> float:
        return round(self._time() - self._origin, 6)

    @property
    def courses(self) -> dict[str, Course]:
        """Of all jobs, by name."""
        return {name: job.course for name, job in self._jobs.items()}

    @property
    def _open_jobs(self) -> list[SharedJob]:
        return [job for job in self._jobs.values() if not job.is_over]

    async def _has_jobs(self) -> bool:
        """Whether there is a job, or comes one before the pool has been idle for too long."""
        await self._wait(lambda: bool(self._open_jobs), self._spec.idle_seconds)
        return bool(self._open_jobs)

    def _let_in(self, admitted: Admitted) -> SharedJob:
        plan = admitted.plan
        around = replace(self._around, emit=admitted.emit, save=admitted.save, started_at=self.now())
        job = self._jobs[plan.job.name] = SharedJob(plan.job.name, Course(plan, admitted.state, around))
        self._emit(
            JobSubmitted(
                at=self.now(),
                job=job.name,
                rounds=plan.job.rounds,
                deadline_seconds=plan.job.deadline_seconds,
                num_shards=plan.terms.num_shards,
            )
        )
        job.course.start()
        self._is_due = True
        self._announce()  # whoever waits has something to measure
        return job

    async def _until_settled(self) -> None:
        """Wait for enough learners (to begin with, or for one at least), and a while for those that are expected."""
        told, least = -1, 1 if self._considered else self._spec.min_learners

        def are_enough() -> bool:
            nonlocal told
            num_ready = self._roster.num_ready
            is_worth_telling = not any(self._is_expected(member) for member in self._roster) or not self._considered
            if num_ready < least and num_ready != told and is_worth_telling:
                told = num_ready
                self._emit(WaitingForLearners(at=self.now(), round=0, num_ready=num_ready, min_learners=least))
            return num_ready >= least

        while True:
            await self._wait(are_enough, None)
            for member in list(self._roster):
                if member.session in self._considered and not member.is_ready and not self._is_expected(member):
                    self._drop(member.name)  # it was there before, and is gone
            expected = [self._heard_at[member.name] for member in self._roster if self._is_expected(member)]
            if not expected:
                return
            until = min(expected) + self._spec.patience_seconds
            await self._wait(
                lambda: not any(self._is_expected(member) for member in self._roster), until - self._time()
            )

    def _is_expected(self, member: Member) -> bool:
        is_recent = self._time() < self._heard_at[member.name] + self._spec.patience_seconds
        return not member.is_ready and is_recent

    async def _play_cycle(self) -> None:
        jobs, ready = self._open_jobs, self._roster.ready
        demands = [
            Demand(job.name, job.course.plan.terms, [member.as_candidate(job.name) for member in ready]) for job in jobs
        ]
        self._is_due = False
        self._considered = {member.session: _probabilities(member) for member in ready}
        start = time.perf_counter()
        assignment = await self._around.aside(lambda: self._policy.assign(demands, self.ledger.left))
        is_virtual = self._around.clock == "virtual"  # where solving takes no time
        self._place(assignment, jobs, ready, 0.0 if is_virtual else time.perf_counter() - start)
        playing = [job for job in jobs if job.team]
        if not playing:
            for job in jobs:
                self._end(job, "budget spent")
            return
        await asyncio.gather(*(self._play_rounds(job) for job in playing))

    def _place(
        self, assignment: Assignment, jobs: Sequence[SharedJob], ready: Sequence[Member], solve_seconds: float
    ) -> None:
        placements = assignment.placements
        budget = math.inf if self._policy.budget is None else self._policy.budget
        spare = max(0.0, budget - assignment.cost) / len(jobs)
        for job in jobs:
            job.team = {name: placement for name, placement in placements.items() if placement.job == job.name}
            job.spare = spare
        self._emit(
            JobsAllocated(
                at=self.now(),
                placements={name: (placement.job, placement.num_shards) for name, placement in placements.items()},
                expected_seconds=assignment.seconds,
                bound=assignment.bound,
                cost=assignment.cost,
                solve_seconds=solve_seconds,
                idle=tuple(member.name for member in ready if member.name not in placements),
                waiting=assignment.waiting,
                waived=assignment.waived,
            )
        )
        self._announce()  # learners move to their jobs

    async def _play_rounds(self, job: SharedJob) -> None:
        """Play rounds of a job until it is over, or learners are to be placed anew."""
        while True:
            if not await self._play_round(job):
                self._is_due = True
                return
            if job.course.why_over is not None:
                self._end(job, job.course.why_over)
                self._is_due = True
                return
            if self._policy.is_renewed or (self._is_due and self._spec.moves_learners):
                return

    async def _play_round(self, job: SharedJob) -> bool:
        """Play one round with those of the team who are there; False if none are, or they cannot be paid."""
        await self._wait(lambda: not any(map(self._may_come, self._absent(job))), self._spec.patience_seconds)
        absent = self._absent(job)
        present = {name: self._roster.named(name) for name in job.team if name not in absent}
        for name in absent:
            self._drop(name)
        prices = {name: member.price for name, member in present.items() if member is not None}
        cost = sum(job.team[name].num_shards * price for name, price in prices.items())
        if not present or not self.ledger.reserve(job.name, cost, spare=job.spare):
            return False
        course = job.course
        opened = course.open(present, *self._portioned(job, prices))
        self._announce()
        seconds = await course.last(opened)
        for name in opened.awaited:
            self._heard_at[name] = self._time()  # who is late by a moment may still come
        await course.close(opened, seconds)
        for line in self.ledger.settle(job.name, opened, prices, course.plan.terms.shard_samples, self.now()):
            self._emit(line)
        for name in sorted(opened.exposed):
            self._roster.exclude(name, CHEATED)
            self._is_due = True
            self._emit(LearnerLeft(at=self.now(), learner=name, reason=f"excluded: {CHEATED}"))
        return True

    def _portioned(self, job: SharedJob, prices: Mapping[str, float]) -> tuple[dict[str, Allocation], Pot | None]:
        """What each of the team gets as a round opens, and the pot of what is held back of those who are present."""
        if not self._policy.held_share or len(prices) < 2:
            return job.allocation, None
        first, mates, num_held = job.allocation, {}, 0
        for name, price in prices.items():
            placement = job.team[name]
            num_first = math.ceil((1 - self._policy.held_share) * placement.num_shards)
            num_held += placement.num_shards - num_first
            first[name] = Allocation(num_first, first[name].local_epochs)
            mates[name] = Mate(
                num_shards=num_first,
                num_last=num_first,
                shard_seconds=placement.shard_seconds,
                price=price,
                began_at=placement.fixed_seconds,
            )
        budget, due_seconds = self.ledger.reserved(job.name), job.course.plan.job.deadline_seconds
        return first, Pot(num_held, mates, budget=budget, due_seconds=due_seconds)

    def _absent(self, job: SharedJob) -> list[str]:
        """Those of a team that do not wait for its next round."""
        members = {name: self._roster.named(name) for name in job.team}
        return [name for name, at in members.items() if at is None or not at.is_ready or at.seat != job.name]

    def _drop(self, name: str) -> None:
        """Do without a learner that should be there; if it is late only, it will join again."""
        self._is_due = True
        member = self._roster.named(name)
        if member is not None:
            self._roster.remove(member)
            self._emit(LearnerLeft(at=self.now(), learner=name, reason="nothing was heard of it"))

    def _may_come(self, name: str) -> bool:
        member = self._roster.named(name)
        return member is not None and (member.is_ready or self._is_expected(member))

    def _end(self, job: SharedJob, reason: Any) -> None:
        job.is_over, job.team = True, {}
        ended = job.course.end(reason)
        self._emit(
            JobEnded(
                at=self.now(),
                job=job.name,
                reason=ended.reason,
                rounds=ended.rounds,
                loss=ended.loss,
                accuracy=ended.accuracy,
            )
        )
        self._changed.set()

    def _announce(self) -> None:
        """Wake all learners that wait."""
        self._changed.set()
        if self._opening is not None:
            self._opening.set_result(None)
            self._opening = None

    async def _wait(self, is_reached: Callable[[], bool], seconds: float | None) -> None:
        """Wait for something that may be so after any change, for so long at most."""

        async def until() -> None:
            while not is_reached():
                self._changed.clear()
                await self._changed.wait()

        if is_reached() or (seconds is not None and seconds <= 0):
            return
        try:
            await loops.within(seconds, until())
        except asyncio.TimeoutError:
            return

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _emit(self, event: Event) -> None:
        self._around.emit(event)

    # What those who have jobs call.

    async def submit(self, tables: dict[str, Any]) -> str:
        if self.ended is not None:
            raise ValueError("all jobs of this pool are over; it takes no other")
        if len(self._open_jobs) >= MAX_JOBS:
            raise ValueError(f"{MAX_JOBS} jobs are in this pool; wait until one is over")
        admitted = await self._around.aside(lambda: self._admit(tables))
        if admitted.plan.job.name in self._jobs:
            raise ValueError(f"there is a job {admitted.plan.job.name!r} in this pool already; names must differ")
        return self._let_in(admitted).name

    async def progress(self) -> list[JobProgress]:
        return [job.progress for job in self._jobs.values()]

    async def follow(self, job: str) -> JobProgress:
        followed = self._jobs.get(job)
        if followed is None:
            raise LookupError(f"there is no job {job[:80]!r} in this pool")
        await self._wait(lambda: followed.is_over, POLL_SECONDS)
        return followed.progress

    # What learners call.

    async def join(self, learner: str, version: str, price: float) -> Welcome:
        check_version(version)
        if not 0 <= price < math.inf:
            raise ValueError(f"price is {price}; it must be at least 0")
        member, is_back = self._roster.join(learner)
        member.price = price
        self._heard_at[learner] = self._time()
        for job in self._jobs.values():
            job.course.give_up(learner)  # whatever its former self was doing
        self._emit(LearnerJoined(at=self.now(), learner=learner, is_back=is_back))
        self._changed.set()
        first = next(iter(self._open_jobs), None)
        if first is None:
            return Welcome(session=member.session, offer=None)
        member.seat = first.name
        return Welcome(session=member.session, offer=first.course.plan.offer)

    async def declare(self, session: str, standing: Standing) -> None:
        member = self._find(session)
        total = sum(outlook.probability for outlook in standing.outlook)
        if not standing.outlook or len(standing.outlook) > _MAX_STATES or abs(total - 1) > _TOLERANCE:
            raise ValueError(
                f"{len(standing.outlook)} states whose probabilities add up to {total:g}; allowed: 1 to {_MAX_STATES} "
                "states, and 1"
            )
        likely = {outlook.state: outlook.probability for outlook in standing.outlook}
        for job, known in member.standings.items():  # how likely its states are is the same in all jobs
            member.standings[job] = _with_probabilities(known, likely)
        member.standings[member.seat] = standing
        placed_with = self._considered.get(member.session, likely)
        if any(abs(likely[state] - placed_with.get(state, 0.0)) > _MUCH for state in likely):
            self._is_due = True

    async def sample(self, session: str, num_shards: int, with_parameters: bool) -> Work:
        return self._course_of(self._find(session)).sample(num_shards, with_parameters)

    async def discard(self, session: str, data: bytes) -> None:
        self._find(session)

    async def fill(self, session: str, num_bytes: int) -> bytes:
        self._find(session)
        return filling(num_bytes)

    async def next_round(self, session: str, after: int, state: str | None) -> Ticket:
        member, until = self._find(session), self._time() + POLL_SECONDS
        member.state = state
        if member.seat in self._jobs:
            opened = self._jobs[member.seat].course.round
            if opened is not None and opened.number <= after:
                self._jobs[member.seat].course.give_up(member.name)
        while True:
            ticket = self._ticket(member, after)
            if ticket is None and self._time() >= until:
                ticket = Ticket(status="wait", reason="no round is open")
            if ticket is not None:
                self._roster.set_ready(member, False)
                self._changed.set()
                return ticket
            if member.session not in self._considered:
                self._is_due = True
            self._roster.set_ready(member, True)
            self._changed.set()
            try:
                self._opening = self._opening or asyncio.get_running_loop().create_future()
                await loops.settled(self._opening, until - self._time())
            except asyncio.CancelledError:  # the device is gone; if not, it will ask again
                self._lose(member)
                raise
            if self.ended is None:
                self._find(session)  # raises, if another one has taken its place

    def _ticket(self, member: Member, after: int) -> Ticket | None:
        """What a learner is to do next; None if there is nothing to do yet."""
        if self.ended is not None:
            self._roster.remove(member)
            return Ticket(status="over", reason=self.ended.reason)
        placed = next((job for job in self._open_jobs if member.name in job.team), None)
        if placed is not None and placed.name == member.seat:
            opened = placed.course.round
            if opened is not None and opened.is_open_to(member.name, after):
                opened.expect(member.name)
                return Ticket(
                    status="open",
                    round=opened.number,
                    seconds_left=opened.due_at - self._time(),
                    allocation=opened.allocated_to(member.name),
                )
        unknown = next((job for job in self._open_jobs if job.name not in member.standings), None)
        to = unknown or placed
        if to is None or (unknown is None and to.name == member.seat):
            return None
        member.seat = to.name
        return Ticket(status="seat", offer=to.course.plan.offer)

    async def take(self, session: str, round: int, num_shards: int) -> Work:
        member = self._find(session)
        return self._course_of(member).take(member.name, round, num_shards)

    async def more(self, session: str, round: int) -> Work:
        member = self._find(session)
        return self._course_of(member).more(member.name, round)

    async def update(self, session: str, round: int, parameters: dict[str, torch.Tensor], num_samples: int) -> Receipt:
        member = self._find(session)
        return self._course_of(member).update(member.name, round, parameters, num_samples)

    async def leave(self, session: str) -> None:
        member = self._find(session)
        self._lose(member)
        self._roster.remove(member)
        self._is_due = True
        self._emit(LearnerLeft(at=self.now(), learner=member.name, reason="it said goodbye"))

    def _find(self, session: str) -> Member:
        member = self._roster.find(session)
        self._heard_at[member.name] = self._time()
        return member

    def _course_of(self, member: Member) -> Course:
        job = self._jobs.get(member.seat)
        if job is None:
            raise ValueError(f"{member.name} is in no job")
        return job.course

    def _lose(self, member: Member) -> None:
        """Count on a member no longer, until it asks again."""
        self._roster.set_ready(member, False)
        self._heard_at[member.name] = -math.inf
        for job in self._jobs.values():
            opened = job.course.round
            if opened is not None and member.name not in opened.shares:
                job.course.give_up(member.name)
        self._changed.set()


def _probabilities(member: Member) -> dict[str, float]:
    standing = member.standings.get(member.seat) or Standing()
    return {outlook.state: outlook.probability for outlook in standing.outlook}


def _with_probabilities(standing: Standing, likely: Mapping[str, float]) -> Standing:
    if {outlook.state for outlook in standing.outlook} != likely.keys():
        return standing
    outlook = [msgspec.structs.replace(one, probability=likely[one.state]) for one in standing.outlook]
    return msgspec.structs.replace(standing, outlook=tuple(outlook))
