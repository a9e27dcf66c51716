"""The orchestrator of a parallel job: opens rounds for who is ready, hands out shards, averages what comes in time."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import torch

import paceline
from paceline.axon import loops
from paceline.learning.averaging import State
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.conductor import Conductor
from paceline.topologies.parallel.course import Course, Surroundings
from paceline.topologies.parallel.events import RunEnded
from paceline.topologies.parallel.messages import (
    MAX_FILL_BYTES,
    OrchestratorService,
    Receipt,
    Standing,
    Ticket,
    Welcome,
    Work,
)
from paceline.topologies.parallel.plans import Plan
from paceline.topologies.parallel.roster import Member, Roster

FAREWELL_SECONDS = 5.0
POLL_SECONDS = 20.0  # a long-poll is answered at the latest after this, as middle boxes want it
CHEATED = "an audit found that it bills work it did not do"


def check_version(version: str) -> None:
    """Raise `ValueError` if a device's Paceline speaks another language."""
    if version.split(".")[:2] != paceline.__version__.split(".")[:2]:
        raise ValueError(
            f"version mismatch: the orchestrator runs paceline {paceline.__version__}, the device {version[:40]}; "
            "install the same on both"
        )


def filling(num_bytes: int) -> bytes:
    """Bytes of no meaning; raises `ValueError` for too many."""
    if not 0 <= num_bytes <= MAX_FILL_BYTES:
        raise ValueError(f"{num_bytes} bytes to fill a link with; 0 to {MAX_FILL_BYTES} are given")
    return bytes(num_bytes)


class Orchestrator(Conductor, OrchestratorService):
    """Runs a plan's rounds with whoever joins. `run` is its life; the other methods are called by learners.

    Args:
        state: the parameters to start from.
        first_round: later than 1 for a run that goes on.

    Attributes:
        ended: how the run ended, once it has.
    """

    calls: ClassVar[frozenset[str]] = OrchestratorService.__abstractmethods__

    def __init__(self, plan: Plan, state: State, around: Surroundings, first_round: int = 1) -> None:
        self._plan = plan
        self._job = plan.job
        self._course = Course(plan, state, around, first_round)
        self._roster = Roster()
        self.ended: RunEnded | None = None
        self._opening: asyncio.Future[None] | None = None  # of the next round, or the end: what learners wait for

    # The life of a run.

    async def run(self) -> None:
        course = self._course
        course.start()
        while course.why_over is None:
            await self._until_enough_are_ready(course.num_closed + 1)
            await self._play()
        self.ended = course.end(course.why_over)
        self._announce()

    @property
    def state(self) -> State:
        """The parameters after the last round that was closed."""
        return self._course.state

    def now(self) -> float:
        return self._course.now()

    async def farewell(self) -> None:
        try:
            await loops.within(FAREWELL_SECONDS, self._course.until(lambda: self._roster.are_all_told))
        except asyncio.TimeoutError:
            return

    async def _until_enough_are_ready(self, number: int) -> None:
        wanted, told = self._job.min_learners, -1

        def are_enough() -> bool:
            nonlocal told
            num_ready = self._roster.num_ready
            if num_ready < wanted and num_ready != told:
                told = num_ready
                self._course.emit(
                    WaitingForLearners(at=self.now(), round=number, num_ready=num_ready, min_learners=wanted)
                )
            return num_ready >= wanted

        await self._course.until(are_enough)

    async def _play(self) -> None:
        course, ready = self._course, self._roster.ready
        allocation = None
        if self._job.allocation.decided_by == "orchestrator":
            allocated = self._job.allocation.allocate(self._plan.terms, [member.as_candidate() for member in ready])
            allocation = dict(zip((member.name for member in ready), allocated, strict=True))
        opened = course.open((member.name for member in ready), allocation)
        self._announce()
        seconds = await course.last(opened)
        for member in self._roster:
            if member.name in opened.awaited:
                self._roster.set_ready(member, False)
        await course.close(opened, seconds)
        for name in sorted(opened.exposed):
            self._roster.exclude(name, CHEATED)
            course.emit(LearnerLeft(at=self.now(), learner=name, reason=f"excluded: {CHEATED}"))
        for member in self._roster.count_missed():
            course.emit(LearnerLeft(at=self.now(), learner=member.name, reason="nothing was heard of it"))

    def _announce(self) -> None:
        """Wake all learners that wait."""
        if self._opening is not None:
            self._opening.set_result(None)
            self._opening = None

    # What learners call.

    async def join(self, learner: str, version: str, price: float) -> Welcome:
        check_version(version)
        member, is_back = self._roster.join(learner)
        self._course.give_up(learner)  # whatever its former self was doing
        self._course.emit(LearnerJoined(at=self.now(), learner=learner, is_back=is_back))
        return Welcome(session=member.session, offer=self._plan.offer)

    async def declare(self, session: str, standing: Standing) -> None:
        self._roster.find(session).standings[""] = standing

    async def sample(self, session: str, num_shards: int, with_parameters: bool) -> Work:
        self._roster.find(session)
        return self._course.sample(num_shards, with_parameters)

    async def discard(self, session: str, data: bytes) -> None:
        self._roster.find(session)

    async def fill(self, session: str, num_bytes: int) -> bytes:
        self._roster.find(session)
        return filling(num_bytes)

    async def next_round(self, session: str, after: int, state: str | None) -> Ticket:
        member, course = self._roster.find(session), self._course
        member.state = state
        self._roster.set_ready(member, True)
        if course.round is not None and course.round.number <= after:
            course.round.give_up(member.name)  # it has delivered, or will not take part in this one
        course.changed.set()
        ticket = self._ticket(member, after)
        if ticket is None:
            try:
                self._opening = self._opening or asyncio.get_running_loop().create_future()
                await loops.settled(self._opening, POLL_SECONDS)
            except asyncio.CancelledError:  # the device is gone; if not, it will ask again
                self._lose(member)
                raise
            if self.ended is None:
                self._roster.find(session)  # raises, if another one has taken its place
            ticket = self._ticket(member, after)
        return ticket or Ticket(status="wait", reason="no round is open")

    def _ticket(self, member: Member, after: int) -> Ticket | None:
        """To the round that is open, or to none any more; None if there is nothing to say yet."""
        if self.ended is not None:
            self._lose(member)
            self._roster.remove(member)
            return Ticket(status="over", round=self.ended.rounds, reason=self.ended.reason)
        opened = self._course.round
        if opened is None or not opened.is_open_to(member.name, after):
            return None
        opened.expect(member.name)
        return Ticket(
            status="open",
            round=opened.number,
            seconds_left=opened.due_at - self._course.time(),
            allocation=opened.allocated_to(member.name),
        )

    async def take(self, session: str, round: int, num_shards: int) -> Work:
        return self._course.take(self._roster.find(session).name, round, num_shards)

    async def more(self, session: str, round: int) -> Work:
        return self._course.more(self._roster.find(session).name, round)

    async def update(self, session: str, round: int, parameters: dict[str, torch.Tensor], num_samples: int) -> Receipt:
        return self._course.update(self._roster.find(session).name, round, parameters, num_samples)

    async def leave(self, session: str) -> None:
        member = self._roster.find(session)
        self._lose(member)
        self._roster.remove(member)
        self._course.emit(LearnerLeft(at=self.now(), learner=member.name, reason="it said goodbye"))

    def _lose(self, member: Member) -> None:
        """Count on a member no longer, until it asks again."""
        self._roster.set_ready(member, False)
        opened = self._course.round
        if opened is not None and member.name not in opened.shares:
            opened.give_up(member.name)
        self._course.changed.set()
