"""A source: joins a trunk with its view of the samples, and does its part of every meeting until the run is over."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paceline
from paceline import axon
from paceline.axon.retry import LONGEST_PAUSE_SECONDS, retry
from paceline.axon.transports import CountedTransport
from paceline.devices.energy import MakeMeter, Meter
from paceline.devices.subset import fit_lane, time_transfers
from paceline.errors import BadReply, ConfigError, PacelineError, RemoteError, TransportError
from paceline.events import Emit, Phase
from paceline.learning.engines import Engine
from paceline.topologies.events import PhaseStarted
from paceline.topologies.rejoining import until_over
from paceline.topologies.split.agendas import agenda
from paceline.topologies.split.cuts import measure_cuts
from paceline.topologies.split.events import NodeSpent, NodeStarted
from paceline.topologies.split.making import source_scheme
from paceline.topologies.split.messages import Answer, Costs, Meeting, Tensors, Terms, Ticket, Welcome
from paceline.topologies.split.samples import Samples, load_samples
from paceline.topologies.split.schemes import SourceScheme

_ECHO_BYTES = 1 << 19  # to time a link with; a trunk takes messages of 1 MiB in any case
_PHASES: dict[str, Phase] = {
    "step": "train",
    "test": "forward",
    "images": "upload",
    "average": "train",
    "backup": "upload",
}


class _Late(Exception):
    """The others went on without this source."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How a source behaves.

    Attributes:
        data: a file with the samples as it sees them; None for the data that all have, seen as the trunk says.
        is_viewed: whether the file has the data that all have, too, to be seen as the trunk says.
        allowed: import paths of models that it may load; None for any.
        patience_seconds: how long it tries to reach a trunk that does not answer.
        load: makes its samples, of the terms and its number; None to load them from where they are.
    """

    data: Path | None = None
    is_viewed: bool = False
    allowed: Sequence[str] | None = ()
    patience_seconds: float = 300.0
    load: Callable[[Terms, int], Samples] | None = None


class Source:
    """Takes part in one split job.

    Args:
        trunk: where it is, as `reach_trunk` gives it over `transport`.
        transport: counts what is sent and received.
        engine: does the work.
        make_meter: makes what tells what that takes.
        emit: is told what happens here; nothing of it is sent.
    """

    def __init__(
        self,
        trunk: axon.Remote,
        transport: CountedTransport,
        name: str,
        engine: Engine,
        make_meter: MakeMeter,
        *,
        emit: Emit = lambda event: None,
        options: SourceOptions = SourceOptions(),  # noqa: B008  (frozen)
    ) -> None:
        self._trunk = trunk
        self._transport = transport
        self._name = name
        self._engine = engine
        self._make_meter = make_meter
        self._emit = emit
        self._options = options
        self._session = ""
        self._number = 0
        self._terms: Terms | None = None
        self._samples: Samples | None = None
        self._scheme: SourceScheme | None = None
        self._last_epoch = 0
        self._started: float | None = None

    async def run(self) -> str:
        """Take part until the run is over; returns the reason. Joins again by itself when the connection is lost."""
        try:
            return await until_over(self._join, self._take_part, self._options.patience_seconds)
        except RemoteError as error:
            raise PacelineError(f"{self._trunk.url} refused {self._name!r}: {error.remote_message}") from error

    async def leave(self) -> None:
        """Say goodbye, if the trunk can be reached: the junction loses what it learned of this source."""
        if self._session:
            try:
                await self._trunk.leave.options(timeout_seconds=5).coro(self._session)
            except (TransportError, RemoteError):
                return

    async def _join(self) -> None:
        self._phase("benchmark", 0)
        try:
            welcome: Welcome = await self._trunk.join.coro(self._name, paceline.__version__)
        except RemoteError as error:
            raise ConfigError(f"{self._trunk.url} refused {self._name!r}: {error.remote_message}") from error
        self._session, self._number = welcome.session, welcome.number
        if self._terms is not None:
            return  # it has been in before, and has all it needs
        terms, options = welcome.terms, self._options
        if options.load is not None:
            self._samples = options.load(terms, welcome.number)
        else:
            self._samples = await self._engine.run(
                lambda: load_samples(terms, welcome.number, options.data, is_viewed=options.is_viewed), 0
            )
        if len(terms.cuts) > 1:
            await self._trunk.declare.coro(self._session, await self._measure(terms))
        self._terms = terms

    async def _measure(self, terms: Terms) -> Costs:
        """The subset benchmark: what each cut would cost here, and what the link can do."""
        cuts = await measure_cuts(terms, self._engine, self._options.allowed)

        def transfer(is_up: bool) -> Callable[[bool], Awaitable[int]]:
            async def send(is_large: bool) -> int:
                num_bytes = _ECHO_BYTES if is_large else _ECHO_BYTES // 16
                data, wanted = (bytes(num_bytes), 0) if is_up else (b"", num_bytes)
                await self._trunk.echo.coro(self._session, data, wanted)
                return num_bytes

            return send

        up, down = fit_lane(await time_transfers(transfer(True))), fit_lane(await time_transfers(transfer(False)))
        return Costs(
            cuts=cuts,
            up_bytes_per_second=up.rate.per_second,
            down_bytes_per_second=down.rate.per_second,
            latency_seconds=(up.latency_seconds + down.latency_seconds) / 2,
        )

    async def _take_part(self) -> str:
        with contextlib.closing(self._make_meter(asyncio.get_running_loop().time)) as meter:
            power = meter.described
            self._emit(NodeStarted(at=self._now(), learner=self._name, number=self._number, power=power))
            self._phase("idle", self._last_epoch)
            while True:
                ticket: Ticket = await self._call(lambda: self._trunk.next_epoch.coro(self._session, self._last_epoch))
                if ticket.status == "over":
                    return ticket.reason
                if ticket.status == "open":
                    await self._play(ticket, meter)

    async def _play(self, ticket: Ticket, meter: Meter) -> None:
        """Do this source's part of an epoch, from the meeting that the ticket tells."""
        assert self._terms is not None and self._samples is not None
        meter.read()  # what came before is not of this epoch
        loop = asyncio.get_running_loop()
        start, busy = loop.time(), self._engine.busy_seconds
        sent, received = self._transport.bytes_sent, self._transport.bytes_received
        if self._scheme is None:
            terms, samples = self._terms, self._samples
            self._scheme = await self._engine.run(
                lambda: source_scheme(terms, ticket.cut, self._name, samples, self._engine, self._options.allowed), 0
            )
        if ticket.parameters:
            self._scheme.load(ticket.parameters)
        meetings = agenda(self._terms, ticket.epoch)
        try:
            await self._attend(ticket.epoch, meetings, ticket.index)
        except _Late:
            return
        finally:
            self._scheme.forget()
        self._last_epoch = ticket.epoch
        seconds, compute = loop.time() - start, self._engine.busy_seconds - busy
        sent, received = self._transport.bytes_sent - sent, self._transport.bytes_received - received
        used = meter.read(sent + received)
        self._emit(
            NodeSpent(
                at=self._now(),
                learner=self._name,
                epoch=ticket.epoch if ticket.epoch <= self._terms.epochs else 0,
                seconds=seconds,
                compute_seconds=compute,
                wait_seconds=max(0.0, seconds - compute),
                bytes_sent=sent,
                bytes_received=received,
                cpu_seconds=used.cpu_seconds,
                joules=used.joules,
            )
        )
        self._phase("idle", ticket.epoch)

    async def _attend(self, epoch: int, meetings: Sequence[Meeting], first: int) -> None:
        """Go to the meetings in turn; where gradients come back, a few may be on at once."""
        assert self._scheme is not None and self._terms is not None
        phase = None
        on: deque[tuple[Meeting, asyncio.Task[Tensors]]] = deque()
        try:
            for index in range(first, len(meetings)):
                meeting = meetings[index]
                if meeting.phase != phase:
                    phase = meeting.phase
                    self._phase(_PHASES[phase], epoch)
                most = self._terms.depth - 1 if phase == "step" else 0
                while on and (len(on) > most or on[0][1].done()):
                    await self._settle(epoch, *on.popleft())
                tensors = await self._scheme.prepare(epoch, meeting)
                on.append((meeting, asyncio.ensure_future(self._bring(epoch, index, tensors))))
            while on:
                await self._settle(epoch, *on.popleft())
        finally:
            for _, bringing in on:
                bringing.cancel()
            await asyncio.gather(*(bringing for _, bringing in on), return_exceptions=True)

    async def _settle(self, epoch: int, meeting: Meeting, bringing: asyncio.Task[Tensors]) -> None:
        assert self._scheme is not None
        try:
            answer = await bringing
        except asyncio.CancelledError:
            bringing.cancel()
            raise
        try:
            await self._scheme.settle(epoch, meeting, answer)
        except ValueError as error:
            raise BadReply(f"{self._trunk.url} answered {meeting.phase} {meeting.number}: {error}") from error

    async def _bring(self, epoch: int, index: int, tensors: Tensors) -> Tensors:
        left: Tensors | None = tensors
        while True:
            bring = functools.partial(self._trunk.bring.coro, self._session, epoch, index, left)
            answer: Answer = await self._call(bring)
            if answer.status == "ready":
                return answer.tensors
            if answer.status == "late":
                raise _Late
            left = None  # they are there

    @staticmethod
    async def _call(attempt: Callable[[], Awaitable[Any]]) -> Any:
        return await retry(attempt, give_up_seconds=LONGEST_PAUSE_SECONDS)

    def _phase(self, phase: Phase, epoch: int) -> None:
        self._emit(PhaseStarted(at=self._now(), learner=self._name, round=epoch, phase=phase))

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _now(self) -> float:
        if self._started is None:
            self._started = self._time()
        return self._time() - self._started
