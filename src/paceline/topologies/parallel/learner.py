"""A learner: joins a job, measures its device, and takes part in rounds until the run is over."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

import paceline
from paceline import axon
from paceline.allocation import Allocation, Candidate, Timings
from paceline.axon.transports import CountedTransport
from paceline.devices.activities import Activity, Undisturbed
from paceline.devices.energy import Meter
from paceline.devices.profiles import Outlook, Profile
from paceline.devices.states import Spent, StateEstimator, StateRates
from paceline.devices.stressors import MATRIX_SIZE
from paceline.devices.subset import benchmark, benchmark_states
from paceline.errors import BadReply, ConfigError, PacelineError, RemoteError, TransportError
from paceline.events import Emit, Phase
from paceline.learning.shards import Array
from paceline.learning.tasks import Task
from paceline.learning.trainers import Trained, Trainer
from paceline.learning.vectors import Vectors
from paceline.topologies.events import PhaseStarted
from paceline.topologies.parallel.events import DeviceMeasured, RoundSpent
from paceline.topologies.parallel.messages import Offer, Receipt, Standing, Ticket, Welcome, Work
from paceline.topologies.parallel.seats import Seat, SeatLink, num_bytes, order_seed, round_seed
from paceline.topologies.rejoining import until_over

_MATRIX_BYTES = 4 * MATRIX_SIZE**2  # what a device downloads that is busy with that


class CannotKeepUp(PacelineError):
    """This device cannot train a single shard by the deadline."""


class TurnedAway(PacelineError):
    """This device took part, and is not let in again."""


@dataclass(frozen=True, kw_only=True)
class LearnerOptions:
    """How a learner behaves.

    Attributes:
        max_shards: the most it takes in a round; None for what the policy says.
        price: that it asks for a shard, where work is paid for.
        own_data: samples and labels to train on in federated jobs; they never leave the device.
        patience_seconds: how long it tries to reach an orchestrator that does not answer.
        meter: tells what a round takes in energy; None to leave that out.
        traffic: what carries its calls, to tell the bytes of a round; None to leave them out.
    """

    max_shards: int | None = None
    price: float = 0.0
    own_data: tuple[Array, Array] | None = None
    patience_seconds: float = 300.0
    meter: Meter | None = None
    traffic: CountedTransport | None = None

    def __post_init__(self) -> None:
        if self.max_shards is not None and self.max_shards < 1:
            raise ConfigError(f"max_shards is {self.max_shards}; it must be at least 1")
        if not 0 <= self.price < math.inf:
            raise ConfigError(f"price is {self.price}; it must be at least 0")


class Learner:
    """Takes part in one run, in whichever of its jobs it is given a seat.

    Args:
        orchestrator: where it is, as `axon.connect` gives it with `OrchestratorService` as interface.
        make_trainer: makes the trainer of a task; raises `ConfigError` for one that this device does not allow.
        emit: is told what happens here; nothing of it is sent.
        make_activity: makes what the device does besides; it is given a way to download something.
    """

    def __init__(
        self,
        orchestrator: axon.Remote,
        name: str,
        make_trainer: Callable[[Task], Trainer],
        *,
        emit: Emit = lambda event: None,
        make_activity: Callable[[Callable[[], Awaitable[object]]], Activity] = lambda fetch: Undisturbed(),
        options: LearnerOptions = LearnerOptions(),  # noqa: B008  (frozen)
    ) -> None:
        self._orchestrator = orchestrator
        self._name = name
        self._make_trainer = make_trainer
        self._emit = emit
        self._options = options
        self._activity = make_activity(self._fill)
        self._estimator = StateEstimator(len(self._activity.states))
        self._found_in: str | None = None  # the state of the device when it joined
        self._session = ""
        self._seats: dict[str, Seat] = {}  # by the name of the job
        self._seat: Seat | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> str:
        """Take part until the run is over; returns the reason. Joins again by itself when the connection is lost."""
        try:
            return await until_over(self._join, self._take_part, self._options.patience_seconds)
        finally:
            await self._activity.aclose()

    async def measure(self) -> Profile:
        """Join, measure this device, and leave."""
        await self._join()
        await self.leave()
        if self._seat is None or self._seat.profile is None:
            raise PacelineError(f"{self._orchestrator.url} has no job to measure this device for")
        return self._seat.profile

    async def leave(self) -> None:
        """Say goodbye, if the orchestrator can be reached."""
        if self._session:
            try:
                await self._orchestrator.leave.options(timeout_seconds=5).coro(self._session)
            except (TransportError, RemoteError):
                return

    # Joining.

    async def _join(self) -> None:
        try:
            welcome: Welcome = await self._orchestrator.join.coro(self._name, paceline.__version__, self._options.price)
        except RemoteError as error:
            refusal = TurnedAway if self._session else ConfigError  # who was in before has given no wrong name
            raise refusal(f"{self._orchestrator.url} refused {self._name!r}: {error.remote_message}") from error
        self._session = welcome.session
        for seat in self._seats.values():
            seat.last_round = 0  # an orchestrator that was restarted repeats the round that was open
        if welcome.offer is not None:
            await self._sit(welcome.offer)

    async def _sit(self, offer: Offer) -> None:
        """Take a seat in a job; measures the device for it, unless it was there before."""
        seat = self._seats.get(offer.task.name)
        if seat is None or not seat.is_for_the_same(offer):
            seat = Seat.of(offer, self._make_trainer(offer.task), self._options.own_data)
            await self._measure(seat)
            self._seats[offer.task.name] = seat
        self._seat = seat
        if seat.policy.decided_by == "orchestrator":
            if seat.policy.needs_outlook and self._found_in is None:  # drawn also where it is not told: alike for all
                self._activity.begin_round()
                self._found_in = self._activity.state
            await self._declare(seat)

    async def _declare(self, seat: Seat) -> None:
        policy, activity = seat.policy, self._activity
        outlook: list[Outlook] = []
        if policy.needs_outlook:
            probabilities = activity.probabilities or self._estimator.probabilities
            outlook = [
                Outlook(state=state, probability=probability, profile=profile)
                for state, probability, profile in zip(activity.states, probabilities, seat.profiles, strict=True)
            ]
        standing = Standing(
            max_shards=self._options.max_shards,
            profile=seat.profile if policy.needs_profiles else None,
            outlook=tuple(outlook),
            state=self._found_in if policy.states_told != "never" else None,
        )
        await self._orchestrator.declare.coro(self._session, standing)

    async def _measure(self, seat: Seat) -> None:
        self._start("benchmark", 0)
        start = self._time()
        num_shards = min(seat.offer.benchmark_shards, seat.terms.num_shards)
        link = SeatLink(self._orchestrator, self._session, seat)
        measured = {"num_shards": num_shards, "model_bytes": seat.terms.model_bytes}
        if seat.policy.needs_outlook:
            seat.profiles = await benchmark_states(self._activity, link, seat.trainer, **measured)
            seat.profile = seat.profiles[0]
        else:
            seat.profile = await benchmark(link, seat.trainer, **measured)
        self._emit(
            DeviceMeasured(
                at=self._time(),
                learner=self._name,
                profile=msgspec.to_builtins(seat.profile),
                seconds=self._time() - start,
                power=None if self._options.meter is None else self._options.meter.described,
                job=seat.offer.task.name,
            )
        )

    async def _fill(self) -> None:
        """Download a matrix, for nothing."""
        await self._orchestrator.fill.coro(self._session, _MATRIX_BYTES)

    # Rounds.

    async def _take_part(self) -> str:
        while True:
            self._activity.begin_round()
            ticket = await self._next_round()
            if ticket.status == "over":
                return ticket.reason
            assert self._seat is not None
            self._seat.last_round = ticket.round
            await self._work(self._seat, ticket)
            if self._seat.policy.needs_outlook and self._activity.probabilities is None:
                await self._declare(self._seat)  # what it has learned about its states

    async def _next_round(self) -> Ticket:
        """A ticket to a round that is open, in this seat or, if so told, in another; or to none any more."""
        while True:
            seat = self._seat
            after = seat.last_round if seat is not None else 0
            state = self._activity.state if seat is not None and seat.policy.states_told == "each round" else None
            self._start("idle", after)
            ticket: Ticket = await self._orchestrator.next_round.coro(self._session, after, state)
            if ticket.status == "seat" and ticket.offer is not None:
                await self._sit(ticket.offer)
            elif ticket.status == "over":
                return ticket
            elif ticket.status == "open":
                if seat is None or ticket.round <= after:
                    raise BadReply(f"the orchestrator opened round {ticket.round} after round {after}")
                return ticket

    async def _work(self, seat: Seat, ticket: Ticket) -> None:
        start = self._time()
        look = _Look(self._options)
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
        upload_seconds = seat.policy.upload_seconds(terms, candidate)
        halt_at = deadline + seat.terms.overtime * seat.terms.deadline_seconds - upload_seconds
        done = await self._train(seat, work, ticket.round, allocation, start, halt_at)
        spent = RoundSpent(
            at=self._time(),
            learner=self._name,
            round=ticket.round,
            deadline_seconds=seat.terms.deadline_seconds,
            start_seconds=max(0.0, seat.terms.deadline_seconds - ticket.seconds_left),
            num_shards=done.num_shards,
            num_samples=done.num_samples,
            download_seconds=done.download_seconds,
            train_seconds=done.train_seconds,
            is_halted=done.is_halted,
            job=seat.offer.task.name,
        )
        await self._hand_in(seat, done.parameters, spent, done.num_bytes, look)

    async def _train(
        self, seat: Seat, work: Work, round: int, allocation: Allocation, start: float, halt_at: float
    ) -> _Done:
        """Train what was taken since `start`, and further portions as long as there are any."""
        done, seeds = _Done(seat.parameters_of(work)), (seat.offer.task.seed, round, self._name)
        while True:
            downloaded = self._time()
            self._start("train", round)
            shards = seat.shards_of(work, allocation.num_shards, round_seed(*seeds))
            trained = await seat.trainer.train(
                done.parameters,
                shards,
                local_epochs=allocation.local_epochs,
                until=halt_at,
                seed=order_seed(*seeds, done.num_portions),
            )
            done.add(trained, len(shards), num_bytes(work), downloaded - start, self._time() - downloaded)
            if done.is_halted or not work.may_be_more:
                return done
            start = self._time()
            self._start("download", round)
            work = await self._orchestrator.more.coro(self._session, round)
            if not work.shards:
                return done

    async def _take(self, seat: Seat, ticket: Ticket, num_shards: int) -> Work | None:
        """The round's work; None if the round closed in the meantime."""
        self._start("download", ticket.round)
        try:
            work: Work = await self._orchestrator.take.coro(self._session, ticket.round, num_shards)
        except RemoteError as error:
            if error.type_name != "ValueError":
                raise
            return None
        return work

    async def _hand_in(self, seat: Seat, parameters: Vectors, spent: RoundSpent, down_bytes: int, look: _Look) -> None:
        """Upload what was trained, if anything was; how it went is remembered also if it failed."""
        start, is_accepted, upload_seconds = self._time(), False, None
        try:
            if spent.num_samples:
                self._start("upload", spent.round)
                receipt: Receipt = await self._orchestrator.update.coro(
                    self._session, spent.round, parameters, spent.num_samples
                )
                is_accepted, upload_seconds = receipt.is_accepted, self._time() - start
        finally:
            now = self._time()
            spent = look.complete(spent)
            self._emit(msgspec.structs.replace(spent, at=now, upload_seconds=upload_seconds, is_accepted=is_accepted))
            timings = Timings(
                down_bytes=down_bytes,
                down_seconds=spent.download_seconds,
                num_samples=spent.num_samples,
                train_seconds=spent.train_seconds,
                up_bytes=seat.terms.model_bytes if spent.num_samples else 0,
                up_seconds=now - start,
            )
            seat.remember(timings)
            if seat.profiles:
                spent_for = _spent(timings, seat.profiles[0].latency_seconds)
                self._estimator.see(spent_for, [_rates(profile) for profile in seat.profiles])

    def _candidate(self, seat: Seat) -> Candidate:
        # To keep time for the upload whatever state it is in, the one counts in which that takes longest.
        slowest = min(seat.profiles, key=lambda profile: profile.up.per_second, default=seat.profile)
        return Candidate(
            name=self._name,
            profile=slowest,
            history=tuple(seat.history),
            max_shards=self._options.max_shards,
        )

    def _check_that_a_whole_round_would_do(self, seat: Seat, candidate: Candidate, ticket: Ticket) -> None:
        """A round that is nearly over is no reason to give up; one that can never be finished is."""
        if ticket.allocation is None and seat.policy.allocate(seat.terms, (candidate,))[0].num_shards < 1:
            raise CannotKeepUp(
                f"{self._name} cannot train one shard of {seat.terms.shard_samples} samples within "
                f"{seat.terms.deadline_seconds:g} s: use a longer deadline, smaller shards or fewer local epochs"
            )

    # Time.

    def _time(self) -> float:
        if self._loop is None:  # to ask for it each time would take longer than all the rest of this
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _start(self, phase: Phase, round: int) -> None:
        self._activity.turn_to(phase)
        job = self._seat.offer.task.name if self._seat is not None else ""
        self._emit(PhaseStarted(at=self._time(), learner=self._name, round=round, phase=phase, job=job))


class _Look:
    """A look at what a learner has used up, to tell what it uses from here on."""

    def __init__(self, options: LearnerOptions) -> None:
        self._meter = options.meter
        self._traffic = options.traffic
        if self._meter is not None:
            self._meter.read()  # what was before is not of the round
        if self._traffic is not None:
            self._before = (self._traffic.bytes_sent, self._traffic.bytes_received)

    def complete(self, spent: RoundSpent) -> RoundSpent:
        """Add what was used since; what nobody counted stays unknown."""
        sent, received = 0, 0
        if self._traffic is not None:
            sent, received = (
                self._traffic.bytes_sent - self._before[0],
                self._traffic.bytes_received - self._before[1],
            )
            spent = msgspec.structs.replace(spent, bytes_sent=sent, bytes_received=received)
        if self._meter is not None:
            cpu_seconds, joules = self._meter.read(sent + received)
            spent = msgspec.structs.replace(spent, cpu_seconds=cpu_seconds, joules=joules)
        return spent


@dataclass
class _Done:
    """What came of a round so far."""

    parameters: Vectors
    num_portions: int = 0
    num_shards: int = 0
    num_samples: int = 0
    num_bytes: int = 0
    download_seconds: float = 0.0
    train_seconds: float = 0.0
    is_halted: bool = False

    def add(
        self, trained: Trained, num_shards: int, num_bytes: int, download_seconds: float, train_seconds: float
    ) -> None:
        self.parameters = trained.parameters
        self.num_portions += 1
        self.num_shards += num_shards
        self.num_samples += trained.num_samples
        self.num_bytes += num_bytes
        self.download_seconds += download_seconds
        self.train_seconds += train_seconds
        self.is_halted = trained.is_halted


def _spent(timings: Timings, latency_seconds: float) -> Spent:
    return Spent(
        num_samples=timings.num_samples,
        train_seconds=timings.train_seconds,
        num_bytes=timings.down_bytes,
        transfer_seconds=max(timings.down_seconds - latency_seconds, 0.0),
    )


def _rates(profile: Profile) -> StateRates:
    return StateRates(samples_per_second=profile.train.per_second, bytes_per_second=profile.down.per_second)
