"""A learner: joins a job, measures its device, and takes part in rounds until the run is over."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

import paceline
from paceline import axon, events
from paceline.allocation import Candidate, Timings
from paceline.axon.retry import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from paceline.devices.profiles import Profile
from paceline.devices.subset import benchmark
from paceline.errors import BadReply, ConfigError, PacelineError, Refused, RemoteError, TransportError
from paceline.events import Emit, Phase
from paceline.learning.shards import Array
from paceline.learning.tasks import Task
from paceline.learning.trainers import Trainer
from paceline.learning.vectors import Vectors
from paceline.topologies.parallel.messages import Offer, Receipt, Ticket, Work
from paceline.topologies.parallel.seats import Seat, SeatLink, num_bytes

_FINAL_STATUS = (401, 404, 422)  # a wrong token, or no orchestrator: trying again would not help
_KEPT_ROUNDS = 50  # of the history that policies see


class CannotKeepUp(PacelineError):
    """This device cannot train a single shard by the deadline."""


@dataclass(frozen=True, kw_only=True)
class LearnerOptions:
    """How a learner behaves.

    Attributes:
        max_shards: the most it takes in a round; None for what the policy says.
        own_data: samples and labels to train on in federated jobs; they never leave the device.
        patience_seconds: how long it tries to reach an orchestrator that does not answer.
    """

    max_shards: int | None = None
    own_data: tuple[Array, Array] | None = None
    patience_seconds: float = 300.0

    def __post_init__(self) -> None:
        if self.max_shards is not None and self.max_shards < 1:
            raise ConfigError(f"max_shards is {self.max_shards}; it must be at least 1")


class Learner:
    """Takes part in one run.

    Args:
        orchestrator: where it is, as `axon.connect` gives it with `OrchestratorService` as interface.
        make_trainer: makes the trainer of a task; raises `ConfigError` for one that this device does not allow.
        emit: is told what happens here; nothing of it is sent.
    """

    def __init__(
        self,
        orchestrator: axon.Remote,
        name: str,
        make_trainer: Callable[[Task], Trainer],
        *,
        emit: Emit = lambda event: None,
        options: LearnerOptions = LearnerOptions(),  # noqa: B008  (frozen)
    ) -> None:
        self._orchestrator = orchestrator
        self._name = name
        self._make_trainer = make_trainer
        self._emit = emit
        self._options = options
        self._history: list[Timings] = []
        self._last_round = 0
        self._seat: Seat | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> str:
        """Take part until the run is over; returns the reason. Joins again by itself when the connection is lost."""
        pause, failing_since = FIRST_PAUSE_SECONDS, None
        while True:
            try:
                self._seat = await self._join()
                failing_since, pause = None, FIRST_PAUSE_SECONDS
                return await self._take_part(self._seat)
            except RemoteError as error:
                if error.type_name != "LookupError":
                    raise
            except TransportError as error:
                if isinstance(error, BadReply) or (isinstance(error, Refused) and error.status in _FINAL_STATUS):
                    raise
                failing_since = self._time() if failing_since is None else failing_since
                if self._time() + pause - failing_since > self._options.patience_seconds:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def measure(self) -> Profile:
        """Join, measure this device, and leave."""
        self._seat = await self._join()
        await self.leave()
        assert self._seat.profile is not None
        return self._seat.profile

    async def leave(self) -> None:
        """Say goodbye, if the orchestrator can be reached."""
        if self._seat is not None:
            try:
                await self._orchestrator.leave.options(timeout_seconds=5).coro(self._seat.offer.session)
            except (TransportError, RemoteError):
                return

    # Joining.

    async def _join(self) -> Seat:
        try:
            offer: Offer = await self._orchestrator.join.coro(self._name, paceline.__version__)
        except RemoteError as error:
            raise ConfigError(f"{self._orchestrator.url} refused {self._name!r}: {error.remote_message}") from error
        self._last_round = 0  # an orchestrator that was restarted repeats the round that was open
        if self._seat is not None and self._seat.is_for_the_same(offer):
            seat = self._seat.moved_to(offer)
        else:
            seat = Seat.of(offer, self._make_trainer(offer.task), self._options.own_data)
            self._history = []
            seat.profile = await self._measure(seat)
        if seat.policy.decided_by == "orchestrator":
            profile = seat.profile if seat.policy.needs_profiles else None
            await self._orchestrator.declare.coro(offer.session, self._options.max_shards, profile)
        return seat

    async def _measure(self, seat: Seat) -> Profile:
        self._start("benchmark", 0)
        start = self._time()
        num_shards = min(seat.offer.benchmark_shards, seat.terms.num_shards)
        link = SeatLink(self._orchestrator, seat)
        profile = await benchmark(link, seat.trainer, num_shards=num_shards, model_bytes=seat.terms.model_bytes)
        self._emit(
            events.DeviceMeasured(
                at=self._time(),
                learner=self._name,
                profile=msgspec.to_builtins(profile),
                seconds=self._time() - start,
            )
        )
        return profile

    # Rounds.

    async def _take_part(self, seat: Seat) -> str:
        while True:
            self._start("idle", self._last_round)
            ticket: Ticket = await self._orchestrator.next_round.coro(seat.offer.session, self._last_round)
            if ticket.status == "over":
                return ticket.reason
            if ticket.status == "open":
                if ticket.round <= self._last_round:
                    raise BadReply(f"the orchestrator opened round {ticket.round} after round {self._last_round}")
                self._last_round = ticket.round
                await self._work(seat, ticket)

    async def _work(self, seat: Seat, ticket: Ticket) -> None:
        start = self._time()
        terms = msgspec.structs.replace(seat.terms, deadline_seconds=max(ticket.seconds_left, 1e-6))
        candidate = self._candidate(seat)
        allocation = ticket.allocation or seat.policy.allocate(terms, (candidate,))[0]
        if allocation.num_shards < 1:
            self._check_that_a_whole_round_would_do(seat, candidate, ticket)
            return
        work = await self._take(seat, ticket, allocation.num_shards)
        if work is None:
            return
        # The ticket may have been long on its way. This answer was sent after it was asked for, so counting from then
        # errs on the safe side.
        deadline = start + min(ticket.seconds_left, work.seconds_left)
        downloaded = self._time()
        self._start("train", ticket.round)
        shards, seed = seat.shards_of(work, allocation.num_shards, self._seed(seat, ticket.round))
        closes_at = deadline + seat.terms.overtime * seat.terms.deadline_seconds
        trained = await seat.trainer.train(
            seat.parameters_of(work),
            shards,
            iterations=allocation.iterations,
            until=closes_at - seat.policy.upload_seconds(terms, candidate),
            seed=seed,
        )
        spent = events.RoundSpent(
            at=self._time(),
            learner=self._name,
            round=ticket.round,
            deadline_seconds=seat.terms.deadline_seconds,
            start_seconds=max(0.0, seat.terms.deadline_seconds - ticket.seconds_left),
            num_shards=len(shards),
            num_samples=trained.num_samples,
            download_seconds=downloaded - start,
            train_seconds=self._time() - downloaded,
            is_halted=trained.is_halted,
        )
        await self._hand_in(seat, trained.parameters, spent, num_bytes(work))

    async def _take(self, seat: Seat, ticket: Ticket, num_shards: int) -> Work | None:
        """The round's work; None if the round closed in the meantime."""
        self._start("download", ticket.round)
        try:
            work: Work = await self._orchestrator.take.coro(seat.offer.session, ticket.round, num_shards)
        except RemoteError as error:
            if error.type_name != "ValueError":
                raise
            return None
        return work

    async def _hand_in(self, seat: Seat, parameters: Vectors, spent: events.RoundSpent, down_bytes: int) -> None:
        """Upload what was trained, if anything was; how it went is remembered also if it failed."""
        start, is_accepted, upload_seconds = self._time(), False, None
        try:
            if spent.num_samples:
                self._start("upload", spent.round)
                receipt: Receipt = await self._orchestrator.update.coro(
                    seat.offer.session, spent.round, parameters, spent.num_samples
                )
                is_accepted, upload_seconds = receipt.is_accepted, self._time() - start
        finally:
            now = self._time()
            self._emit(msgspec.structs.replace(spent, at=now, upload_seconds=upload_seconds, is_accepted=is_accepted))
            timings = Timings(
                down_bytes=down_bytes,
                down_seconds=spent.download_seconds,
                num_samples=spent.num_samples,
                train_seconds=spent.train_seconds,
                up_bytes=seat.terms.model_bytes if spent.num_samples else 0,
                up_seconds=now - start,
            )
            self._history = [*self._history[1 - _KEPT_ROUNDS :], timings]

    def _candidate(self, seat: Seat) -> Candidate:
        return Candidate(
            name=self._name,
            profile=seat.profile,
            history=tuple(self._history),
            max_shards=self._options.max_shards,
        )

    def _check_that_a_whole_round_would_do(self, seat: Seat, candidate: Candidate, ticket: Ticket) -> None:
        """A round that is nearly over is no reason to give up; one that can never be finished is."""
        if ticket.allocation is None and seat.policy.allocate(seat.terms, (candidate,))[0].num_shards < 1:
            raise CannotKeepUp(
                f"{self._name} cannot train one shard of {seat.terms.shard_samples} samples within "
                f"{seat.terms.deadline_seconds:g} s: use a longer deadline, smaller shards or fewer iterations"
            )

    def _seed(self, seat: Seat, round: int) -> tuple[int, ...]:
        return (seat.offer.task.seed, round, zlib.crc32(self._name.encode()))

    # Time.

    def _time(self) -> float:
        if self._loop is None:  # to ask for it each time would take longer than all the rest of this
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _start(self, phase: Phase, round: int) -> None:
        self._emit(events.PhaseStarted(at=self._time(), learner=self._name, round=round, phase=phase))
