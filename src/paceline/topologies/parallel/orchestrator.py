"""The orchestrator of a parallel job: opens rounds, hands out shards, averages what comes back in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch

import paceline
from paceline import events
from paceline.allocation import Allocation, Candidate
from paceline.axon import loops
from paceline.devices.profiles import Profile
from paceline.events import Emit
from paceline.learning.averaging import Judge, State
from paceline.learning.shards import Deck
from paceline.learning.vectors import Layout
from paceline.topologies.parallel.messages import (
    MAX_SHARDS,
    Offer,
    OrchestratorService,
    Receipt,
    Ticket,
    Work,
)
from paceline.topologies.parallel.plans import Plan
from paceline.topologies.parallel.roster import Member, Roster
from paceline.topologies.parallel.rounds import OpenRound

_FAREWELL_SECONDS = 5.0
_POLL_SECONDS = 20.0  # a long-poll is answered at the latest after this, as middle boxes want it

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Do heavy work without holding up the loop."""
    return await asyncio.to_thread(work)


async def in_place(work: Callable[[], T]) -> T:
    """Do heavy work at once: on virtual time it takes none, and threads would make the order a matter of chance."""
    return work()


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What an orchestrator needs from where it runs.

    Attributes:
        emit: is told of all that happens.
        save: keeps the parameters after each round.
        aside: where heavy work is done.
        clock: named in the record of the run.
        started_at: the `at` of the first event; a resumed run goes on from its last one.
    """

    emit: Emit
    save: Callable[[int, State], None] = lambda round, state: None
    aside: Callable[[Callable[[], Any]], Awaitable[Any]] = in_thread
    clock: Literal["live", "virtual"] = "live"
    started_at: float = 0.0


class Orchestrator(OrchestratorService):
    """Runs a plan's rounds with whoever joins. `run` is its life; the other methods are called by learners.

    Args:
        state: the parameters to start from.
        first_round: later than 1 for a run that goes on.
    """

    def __init__(self, plan: Plan, state: State, around: Surroundings, first_round: int = 1) -> None:
        self._plan = plan
        self._job = plan.job
        self._layout = Layout(state)
        self._parameters = self._layout.pack(state)
        self._around = around
        self._first_round = first_round
        self._roster = Roster()
        self._round: OpenRound | None = None
        self._opened_at: dict[int, float] = {}  # loop times of this and the last round, to time what comes late
        self._late: set[tuple[int, str]] = set()  # of the last round: round and learner
        self._deck = self._deck_to_measure = Deck(plan.terms.num_shards, (self._job.seed, 0))
        self._ended: events.RunEnded | None = None
        self._progress = asyncio.Event()  # something that the round loop waits for may have happened
        self._opening: asyncio.Future[None] | None = None  # of the next round, or the end: what learners wait for
        self._origin = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    # The life of a run.

    async def run(self) -> events.RunEnded:
        """Play all rounds; returns when the last one is closed. Learners must be able to call from the start."""
        self._origin = self._time() - self._around.started_at
        self._emit(
            events.RunStarted(
                at=self.now(),
                job=self._job.described(),
                clock=self._around.clock,
                first_round=self._first_round,
                num_parameters=sum(vector.numel() for vector in self._parameters.values()),
                num_shards=self._plan.num_served_shards,
                paceline=paceline.__version__,
            )
        )
        reason: Literal["rounds done", "target accuracy reached"] = "rounds done"
        number, loss, accuracy = self._first_round - 1, None, None
        while number < self._job.rounds:
            number += 1
            await self._until_enough_are_ready(number)
            loss, accuracy = await self._play(number)
            if self._job.is_reached_by(accuracy):
                reason = "target accuracy reached"
                break
        self._ended = events.RunEnded(at=self.now(), reason=reason, rounds=number, loss=loss, accuracy=accuracy)
        self._emit(self._ended)
        self._announce()
        return self._ended

    @property
    def state(self) -> State:
        """The parameters after the last round that was closed."""
        return self._layout.unpack(self._parameters)

    async def farewell(self) -> None:
        """Wait, but not long, until all learners have heard that the run is over."""
        try:
            await loops.within(_FAREWELL_SECONDS, self._until(lambda: self._roster.are_all_told))
        except asyncio.TimeoutError:
            return

    async def _until_enough_are_ready(self, number: int) -> None:
        wanted, told = self._job.min_learners, -1

        def are_enough() -> bool:
            nonlocal told
            num_ready = self._roster.num_ready
            if num_ready < wanted and num_ready != told:
                told = num_ready
                self._emit(
                    events.WaitingForLearners(at=self.now(), round=number, num_ready=num_ready, min_learners=wanted)
                )
            return num_ready >= wanted

        await self._until(are_enough)

    async def _until(self, is_reached: Callable[[], bool]) -> None:
        while not is_reached():
            self._progress.clear()
            await self._progress.wait()

    async def _play(self, number: int) -> tuple[float | None, float | None]:
        opened = self._open(number)
        open_seconds = opened.deadline_seconds + opened.overtime_seconds
        try:
            await loops.within(open_seconds, self._until(lambda: opened.is_complete))
        except asyncio.TimeoutError:
            seconds = open_seconds
        else:
            seconds = min(self._time() - opened.opened_at, open_seconds)
        return await self._close(opened, seconds)

    def _open(self, number: int) -> OpenRound:
        ready = self._roster.ready
        awaited, judge = {member.name for member in ready}, Judge(self._parameters)
        deadline_seconds = self._job.deadline_seconds
        opened = OpenRound(
            number,
            self._time(),
            deadline_seconds,
            judge,
            awaited,
            overtime_seconds=self._job.overtime * deadline_seconds,
        )
        if self._job.allocation.decided_by == "orchestrator":
            candidates = [
                Candidate(name=member.name, profile=member.profile, max_shards=member.max_shards) for member in ready
            ]
            allocated = self._job.allocation.allocate(self._plan.terms, candidates)
            opened.allocation = dict(zip((member.name for member in ready), allocated, strict=True))
        self._deck = Deck(self._plan.terms.num_shards, (self._job.seed, number))
        self._opened_at = {n: at for n, at in self._opened_at.items() if n == number - 1} | {number: opened.opened_at}
        self._round = opened
        self._emit(
            events.RoundOpened(
                at=self.now(), round=number, deadline_seconds=opened.deadline_seconds, num_learners=len(ready)
            )
        )
        self._announce()
        return opened

    def _announce(self) -> None:
        """Wake all learners that wait."""
        if self._opening is not None:
            self._opening.set_result(None)
            self._opening = None

    async def _close(self, closed: OpenRound, seconds: float) -> tuple[float | None, float | None]:
        self._round = None
        for member in self._roster:
            if member.name in closed.awaited:
                self._roster.set_ready(member, False)
        self._late = {(closed.number, learner) for learner in closed.late}
        if closed.delivered:
            self._parameters = closed.average.result(self._parameters)
        loss, accuracy = await self._evaluate()
        await self._around.aside(lambda: self._around.save(closed.number, self.state))
        self._emit(
            events.RoundClosed(
                at=self.now(),
                round=closed.number,
                seconds=seconds,
                truancy=(seconds - closed.deadline_seconds) / closed.deadline_seconds,
                num_learners=len(closed.shares),
                num_updates=len(closed.delivered),
                num_samples=round(closed.average.weight),
                num_shards=closed.num_shards,
                staleness=closed.staleness,
                average_staleness=closed.average_staleness,
                late=tuple(closed.late),
                loss=loss,
                accuracy=accuracy,
            )
        )
        for member in self._roster.count_missed():
            self._emit(events.LearnerLeft(at=self.now(), learner=member.name, reason="nothing was heard of it"))
        return loss, accuracy

    async def _evaluate(self) -> tuple[float | None, float | None]:
        evaluate = self._plan.evaluate
        if evaluate is None:
            return None, None
        loss, accuracy = await self._around.aside(lambda: evaluate(self.state))
        return loss, accuracy

    # What learners call.

    async def join(self, learner: str, version: str) -> Offer:  # noqa: D102
        if version.split(".")[:2] != paceline.__version__.split(".")[:2]:
            raise ValueError(
                f"version mismatch: the orchestrator runs paceline {paceline.__version__}, the device {version[:40]}; "
                "install the same on both"
            )
        member, is_back = self._roster.join(learner)
        if self._round is not None:
            self._round.give_up(learner)  # whatever its former self was doing
        self._emit(events.LearnerJoined(at=self.now(), learner=learner, is_back=is_back))
        self._progress.set()
        return self._plan.offer(member.session)

    async def declare(self, session: str, max_shards: int | None, profile: Profile | None) -> None:  # noqa: D102
        member = self._roster.find(session)
        member.max_shards, member.profile = max_shards, profile

    async def sample(self, session: str, num_shards: int, with_parameters: bool) -> Work:  # noqa: D102
        self._roster.find(session)
        if not 0 <= num_shards <= self._job.benchmark_shards:
            raise ValueError(f"{num_shards} shards to measure with; 0 to {self._job.benchmark_shards} are given")
        shards = self._plan.shards(self._deck_to_measure.deal(num_shards))
        return Work(parameters=self._parameters if with_parameters else {}, shards=shards)

    async def discard(self, session: str, data: bytes) -> None:  # noqa: D102
        self._roster.find(session)

    async def next_round(self, session: str, after: int) -> Ticket:  # noqa: D102
        member = self._roster.find(session)
        self._roster.set_ready(member, True)
        if self._round is not None and self._round.number <= after:
            self._round.give_up(member.name)  # it has delivered, or will not take part in this one
        self._progress.set()
        ticket = self._ticket(member, after)
        if ticket is None:
            try:
                self._opening = self._opening or asyncio.get_running_loop().create_future()
                await loops.settled(self._opening, _POLL_SECONDS)
            except asyncio.CancelledError:  # the device is gone; if not, it will ask again
                self._lose(member)
                raise
            if self._ended is None:
                self._roster.find(session)  # raises, if another one has taken its place
            ticket = self._ticket(member, after)
        return ticket or Ticket(status="wait", reason="no round is open")

    def _ticket(self, member: Member, after: int) -> Ticket | None:
        """To the round that is open, or to none any more; None if there is nothing to say yet."""
        if self._ended is not None:
            self._lose(member)
            self._roster.remove(member)
            return Ticket(status="over", round=self._ended.rounds, reason=self._ended.reason)
        if self._round is None or not self._round.is_open_to(member.name, after):
            return None
        self._round.expect(member.name)
        return Ticket(
            status="open",
            round=self._round.number,
            seconds_left=self._round.due_at - self._time(),
            allocation=self._round.allocated_to(member.name),
        )

    async def take(self, session: str, round: int, num_shards: int) -> Work:  # noqa: D102
        member = self._roster.find(session)
        opened = self._round
        if opened is None or opened.number != round:
            raise ValueError(f"round {round} is not open{'' if opened is None else f', round {opened.number} is'}")
        allocated = opened.allocated_to(member.name) or Allocation(MAX_SHARDS, self._plan.terms.iterations)
        most = allocated.num_shards
        if not 0 < num_shards <= most:
            raise ValueError(f"{num_shards} shards cannot be taken; at least 1 and at most {most} can")
        share = opened.shares.get(member.name)
        if share is None:
            share = opened.shares[member.name] = self._plan.share(self._deck, num_shards, allocated.iterations)
            opened.expect(member.name)
            self._emit(
                events.ShardsTaken(
                    at=self.now(),
                    round=round,
                    learner=member.name,
                    num_shards=share.num_shards,
                    iterations=share.iterations,
                    seconds=self._time() - opened.opened_at,
                )
            )
        return Work(
            parameters=self._parameters,
            shards=self._plan.shards(share.numbers),
            seconds_left=opened.due_at - self._time(),
        )

    async def update(  # noqa: D102
        self, session: str, round: int, parameters: dict[str, torch.Tensor], num_samples: int
    ) -> Receipt:
        member = self._roster.find(session)
        opened = self._round
        seconds = self._time() - self._opened_at[round] if round in self._opened_at else None
        if opened is None or opened.number != round:
            is_late = seconds is not None and (round, member.name) in self._late
            told = f"round {round} is closed" if seconds is not None else f"round {round} is not open"
            return self._refuse(member, round, told, seconds, is_late=is_late)
        reason = opened.accept(member.name, parameters, num_samples)
        self._progress.set()
        if reason is not None:
            return self._refuse(member, round, reason, seconds)
        assert seconds is not None
        self._emit(
            events.UpdateAccepted(
                at=self.now(), round=round, learner=member.name, num_samples=num_samples, seconds=seconds
            )
        )
        return Receipt(is_accepted=True)

    def _refuse(
        self, member: Member, round: int, reason: str, seconds: float | None, *, is_late: bool = False
    ) -> Receipt:
        self._late.discard((round, member.name))
        self._emit(
            events.UpdateRefused(
                at=self.now(), round=round, learner=member.name, reason=reason, seconds=seconds, is_late=is_late
            )
        )
        return Receipt(is_accepted=False, reason=reason)

    async def leave(self, session: str) -> None:  # noqa: D102
        member = self._roster.find(session)
        self._lose(member)
        self._roster.remove(member)
        self._emit(events.LearnerLeft(at=self.now(), learner=member.name, reason="it said goodbye"))

    def _lose(self, member: Member) -> None:
        """Count on a member no longer, until it asks again."""
        self._roster.set_ready(member, False)
        if self._round is not None and member.name not in self._round.shares:
            self._round.give_up(member.name)
        self._progress.set()

    # Time.

    def _time(self) -> float:
        if self._loop is None:  # to ask for it each time would take longer than all the rest of this
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def now(self) -> float:
        """Seconds since the run started."""
        return round(self._time() - self._origin, 6)

    def _emit(self, event: events.AnyEvent) -> None:
        self._around.emit(event)
