"""A learner: joins a job, measures its device, and takes part in rounds until the run is over."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

import paceline
from paceline import allocation, axon, events
from paceline.allocation import Candidate, Terms, Timings
from paceline.axon.retry import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from paceline.devices.profiles import Profile
from paceline.devices.subset import Link, benchmark
from paceline.errors import ConfigError, PacelineError, Refused, RemoteError, TransportError
from paceline.events import Emit, Phase
from paceline.learning.shards import Array, Deck, Shard, ShardStore
from paceline.learning.tasks import Task
from paceline.learning.trainers import Trainer
from paceline.learning.vectors import Layout
from paceline.topologies.parallel.messages import Offer, Ticket, Work

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
        self._seat: _Seat | None = None

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
                if isinstance(error, Refused) and error.status in _FINAL_STATUS:
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

    async def _join(self) -> _Seat:
        try:
            offer: Offer = await self._orchestrator.join.coro(self._name, paceline.__version__)
        except RemoteError as error:
            raise ConfigError(f"{self._orchestrator.url} refused {self._name!r}: {error.remote_message}") from error
        former = self._seat
        self._last_round = 0  # an orchestrator that was restarted repeats the round that was open
        if former is not None and former.is_for_the_same(offer):
            return former.moved_to(offer)
        seat = _Seat.of(offer, self._make_trainer(offer.task), self._options)
        self._history = []
        self._start("benchmark", 0)
        start = self._time()
        seat.profile = await self._benchmark(seat)
        self._emit(
            events.DeviceMeasured(
                at=self._time(),
                learner=self._name,
                profile=msgspec.to_builtins(seat.profile),
                seconds=self._time() - start,
            )
        )
        if seat.policy.decided_by == "orchestrator":
            await self._orchestrator.declare.coro(offer.session, self._options.max_shards)
        return seat

    async def _benchmark(self, seat: _Seat) -> Profile:
        return await benchmark(
            _SeatLink(self._orchestrator, seat),
            seat.trainer,
            num_shards=min(seat.offer.benchmark_shards, seat.terms.num_shards),
            model_bytes=seat.terms.model_bytes,
        )

    # Rounds.

    async def _take_part(self, seat: _Seat) -> str:
        while True:
            self._start("idle", self._last_round)
            ticket: Ticket = await self._orchestrator.next_round.coro(seat.offer.session, self._last_round)
            if ticket.status == "over":
                return ticket.reason
            if ticket.status == "open":
                self._last_round = ticket.round
                await self._work(seat, ticket)

    async def _work(self, seat: _Seat, ticket: Ticket) -> None:
        start = self._time()
        deadline = start + ticket.seconds_left
        terms = msgspec.structs.replace(seat.terms, deadline_seconds=max(ticket.seconds_left, 1e-6))
        candidate = Candidate(
            name=self._name,
            profile=seat.profile,
            history=tuple(self._history),
            max_shards=self._options.max_shards,
        )
        num_shards = seat.policy.allocate(terms, (candidate,))[0] if ticket.num_shards is None else ticket.num_shards
        if num_shards < 1:
            self._check_that_a_whole_round_would_do(seat, candidate, ticket)
            return
        self._start("download", ticket.round)
        asked = self._time()
        try:
            work: Work = await self._orchestrator.take.coro(seat.offer.session, ticket.round, num_shards)
        except RemoteError as error:
            if error.type_name != "ValueError":
                raise
            return  # the round closed in the meantime
        seed = [seat.offer.task.seed, ticket.round, zlib.crc32(self._name.encode())]
        shards = [Shard(*arrays) for arrays in work.shards] or seat.own_shards(num_shards, seed)
        downloaded = self._time()
        # The ticket may have been long on its way. This answer was sent after it was asked for, so it errs on the
        # safe side.
        deadline = min(deadline, asked + work.seconds_left)
        self._start("train", ticket.round)
        halt_at = deadline - seat.policy.upload_seconds(terms, candidate)
        state = seat.layout.unpack(work.parameters)
        trained = await seat.trainer.train(state, shards, until=halt_at, seed=zlib.crc32(repr(seed).encode()))
        ended = self._time()
        spent = events.RoundSpent(
            at=ended,
            learner=self._name,
            round=ticket.round,
            deadline_seconds=seat.terms.deadline_seconds,
            start_seconds=max(0.0, seat.terms.deadline_seconds - ticket.seconds_left),
            num_shards=len(shards),
            num_samples=trained.num_samples,
            download_seconds=downloaded - start,
            train_seconds=ended - downloaded,
            is_halted=trained.is_halted,
        )
        if not trained.num_samples:
            self._emit(spent)
            return
        self._start("upload", ticket.round)
        parameters = seat.layout.pack(trained.state)
        receipt = await self._orchestrator.update.coro(
            seat.offer.session, ticket.round, parameters, trained.num_samples
        )
        upload_seconds = self._time() - ended
        self._emit(
            msgspec.structs.replace(
                spent, at=self._time(), upload_seconds=upload_seconds, is_accepted=receipt.is_accepted
            )
        )
        self._history.append(
            Timings(
                down_bytes=_work_bytes(work),
                down_seconds=spent.download_seconds,
                num_samples=trained.num_samples,
                train_seconds=spent.train_seconds,
                up_bytes=_num_bytes(parameters),
                up_seconds=upload_seconds,
            )
        )
        del self._history[:-_KEPT_ROUNDS]

    def _check_that_a_whole_round_would_do(self, seat: _Seat, candidate: Candidate, ticket: Ticket) -> None:
        """A round that is nearly over is no reason to give up; one that can never be finished is."""
        if ticket.num_shards is None and seat.policy.allocate(seat.terms, (candidate,))[0] < 1:
            raise CannotKeepUp(
                f"{self._name} cannot train one shard of {seat.terms.shard_samples} samples within "
                f"{seat.terms.deadline_seconds:g} s: use a longer deadline, smaller shards or fewer iterations"
            )

    # Time.

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _start(self, phase: Phase, round: int) -> None:
        self._emit(events.PhaseStarted(at=self._time(), learner=self._name, round=round, phase=phase))


@dataclass
class _Seat:
    """A place in a run: what was offered, and what this device made of it."""

    offer: Offer
    terms: Terms
    policy: allocation.AllocationPolicy
    trainer: Trainer
    layout: Layout
    store: ShardStore | None
    profile: Profile | None = None

    @classmethod
    def of(cls, offer: Offer, trainer: Trainer, options: LearnerOptions) -> _Seat:
        """Make sense of an offer; raises `ConfigError` if this device cannot take it."""
        policy, layout = allocation.from_config(offer.policy), Layout(trainer.initial_state())
        if offer.placement == "served":
            return cls(offer, offer.terms, policy, trainer, layout, None)
        if options.own_data is None:
            raise ConfigError("this job trains on data of the devices' own: pass --data FILE.npz")
        x, y = options.own_data
        if x.shape[1:] != offer.task.input_shape or int(y.max(initial=0)) >= offer.task.num_classes:
            raise ConfigError(
                f"the data has samples of shape {x.shape[1:]} and labels up to {int(y.max(initial=0))}; "
                f"the job wants {offer.task.input_shape} and labels below {offer.task.num_classes}"
            )
        store = ShardStore(x, y, offer.terms.shard_samples, offer.task.seed)
        terms = msgspec.structs.replace(offer.terms, num_shards=len(store), shard_bytes=0)
        return cls(offer, terms, policy, trainer, layout, store)

    def is_for_the_same(self, offer: Offer) -> bool:
        """Whether an offer is of the same job, so that what was measured still holds."""
        return msgspec.structs.replace(offer, session=self.offer.session) == self.offer

    def moved_to(self, offer: Offer) -> _Seat:
        """The same place in a new session."""
        self.offer = offer
        return self

    def own_shards(self, count: int, seed: Any) -> list[Shard]:
        """Shards of the device's own data, drawn at random."""
        assert self.store is not None
        return [self.store[number] for number in Deck(len(self.store), seed).deal(count)]


class _SeatLink(Link):
    """The link between a seat and its orchestrator, to be measured."""

    def __init__(self, orchestrator: axon.Remote, seat: _Seat) -> None:
        self._orchestrator = orchestrator
        self._seat = seat

    async def fetch(self, num_shards: int, *, with_parameters: bool) -> tuple[list[Shard], int]:
        num_served = num_shards if self._seat.store is None else 0
        session = self._seat.offer.session
        work: Work = await self._orchestrator.sample.coro(session, num_served, with_parameters)
        own = [] if self._seat.store is None else self._seat.own_shards(num_shards, (0,))
        return [Shard(*arrays) for arrays in work.shards] or own, _work_bytes(work)

    async def send(self, num_bytes: int) -> None:
        await self._orchestrator.discard.coro(self._seat.offer.session, bytes(num_bytes))


def _work_bytes(work: Work) -> int:
    return _num_bytes(work.parameters) + sum(x.nbytes + y.nbytes for x, y in work.shards)


def _num_bytes(state: dict[str, torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in state.values())
