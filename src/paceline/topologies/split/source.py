"""A source: joins a trunk with its view of the samples, and does its part at every sync point until the run is over."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias

import msgspec

import paceline
from paceline.devices.subset_benchmark import fit_direction, time_transfers
from paceline.errors import BadReply, ConfigError, PacelineError, RemoteError
from paceline.events import Phase
from paceline.learning.engines import Engine
from paceline.topologies.base import Finished, Member, Node
from paceline.topologies.consent import check_consent
from paceline.topologies.events import PhaseStarted
from paceline.topologies.sessions import RETRY_SECONDS, Changes, say_goodbye, until_over
from paceline.topologies.split import messages
from paceline.topologies.split.cuts import measure_cuts
from paceline.topologies.split.disclosures import disclosures_of
from paceline.topologies.split.events import NodeStarted
from paceline.topologies.split.samples import Samples
from paceline.topologies.split.schedule import schedule_of
from paceline.topologies.split.schemes.averaging import AveragingAtSource
from paceline.topologies.split.schemes.base import SourceScheme
from paceline.topologies.split.schemes.branches import BranchAtSource
from paceline.topologies.split.schemes.images import ImagesAtSource
from paceline.topologies.split.spending import Spending

LoadSamples: TypeAlias = Callable[[messages.SplitTerms, int], Samples]
"""Makes the samples of a source, from the terms and its number; raises `ConfigError`."""

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


class Source(Member):
    """Takes part in one split job. Its events stay on the device; nothing of them is sent.

    Args:
        engine: does its work.
        load: makes its samples.
        allowed: import paths of models that it may load; None for any.
    """

    def __init__(self, node: Node, engine: Engine, load: LoadSamples, allowed: Collection[str] | None) -> None:
        self._node = node
        self._engine = engine
        self._load = load
        self._allowed = allowed
        self._trunk = node.connect(
            messages.TrunkService,
            timeout_seconds=messages.CALL_SECONDS,
            retry_seconds=min(RETRY_SECONDS, node.options.patience_seconds),
        )
        self._session = ""
        self._number = 0
        self._terms: messages.SplitTerms | None = None
        self._samples: Samples | None = None
        self._scheme: SourceScheme | None = None
        self._last_epoch = 0
        self._changes = Changes()
        self._is_suspended = self._is_in_epoch = False

    async def run(self, address: str = "") -> Finished:
        """Take part until the run is over. Joins again by itself when the connection is lost."""
        try:
            return Finished(await until_over(self._join, self._take_part, self._node))
        except RemoteError as error:
            kind = ConfigError if error.type_name == "ValueError" else PacelineError
            raise kind(f"{self._trunk.url} refused {self._node.name!r}: {error.remote_message}") from error

    async def suspend(self) -> None:
        self._is_suspended = True
        await self._changes.until(lambda: not self._is_in_epoch)

    async def leave(self) -> None:
        """Say goodbye: the junction loses what it learned of this source."""
        await say_goodbye(self._trunk, self._session)

    # Joining.

    async def _join(self) -> None:
        self._start("benchmark", 0)
        proof = await self._node.prove(self._trunk)
        welcome: messages.SourceWelcome = await self._trunk.join.options(retry_seconds=0).coro(
            self._node.name, paceline.__version__, proof
        )
        self._session, self._number = welcome.session, welcome.number
        self._last_epoch = 0  # a trunk that was restarted repeats the epoch that was open
        if self._terms is not None:  # it has been in before, and has all it needs
            self._terms = msgspec.structs.replace(self._terms, first_epoch=welcome.terms.first_epoch)
            return
        terms = welcome.terms
        disclosed = disclosures_of(terms.scheme, is_measured=len(terms.cuts) > 1)
        check_consent(disclosed, self._node.options.is_private)
        self._samples = await self._node.run_blocking(lambda: self._load(terms, welcome.number))
        if len(terms.cuts) > 1:
            await self._trunk.declare.coro(self._session, await self._measure(terms))
        self._terms = terms

    async def _measure(self, terms: messages.SplitTerms) -> messages.Costs:
        """Run the subset benchmark: what each cut would cost here, and what the link can do."""
        cuts = await measure_cuts(terms, self._engine, self._allowed)

        def transfer(is_up: bool) -> Callable[[bool], Awaitable[int]]:
            async def send(is_large: bool) -> int:
                num_bytes = _ECHO_BYTES if is_large else _ECHO_BYTES // 16
                data, wanted = (bytes(num_bytes), 0) if is_up else (b"", num_bytes)
                await self._trunk.echo.coro(self._session, data, wanted)
                return num_bytes

            return send

        up = fit_direction(await time_transfers(transfer(True)))
        down = fit_direction(await time_transfers(transfer(False)))
        return messages.Costs(
            cuts=cuts,
            up_bytes_per_second=up.rate.per_second,
            down_bytes_per_second=down.rate.per_second,
            latency_seconds=(up.latency_seconds + down.latency_seconds) / 2,
        )

    # Epochs.

    async def _take_part(self) -> str:
        node, terms = self._node, self._terms
        assert terms is not None
        node.record(
            NodeStarted,
            learner=node.name,
            number=self._number,
            power=node.machine.meter.described,
            device=node.machine.accelerator_name,
            precision=terms.training.precision,
        )
        self._start("idle", self._last_epoch)
        while True:
            ticket: messages.EpochTicket = await self._trunk.next_epoch.coro(self._session, self._last_epoch)
            if ticket.status == "over":
                return ticket.reason
            if self._is_suspended:
                await asyncio.get_running_loop().create_future()
            if ticket.status == "open":
                self._is_in_epoch = True
                try:
                    await self._train_epoch(ticket)
                finally:
                    self._is_in_epoch = False
                    self._changes.notify()

    async def _train_epoch(self, ticket: messages.EpochTicket) -> None:
        """Do this source's part of an epoch, from the sync point on that the ticket is for."""
        assert self._terms is not None and self._samples is not None
        node, transport = self._node, self._node.transport
        spending = Spending(self._engine, node.machine.meter, lambda: (transport.bytes_sent, transport.bytes_received))
        if self._scheme is None:
            make = functools.partial(self._make_scheme, self._terms, self._samples, ticket.cut)
            self._scheme = await self._engine.run(make, 0)
        if ticket.parameters:
            self._scheme.load(ticket.parameters)
        try:
            await self._sync_all(self._scheme, ticket.epoch, schedule_of(self._terms, ticket.epoch), ticket.index)
        except _Late:
            return
        finally:
            self._scheme.forget()
        self._last_epoch = ticket.epoch
        epoch = ticket.epoch if ticket.epoch <= self._terms.epochs else 0
        node.emit(spending.until_now(node.now(), node.name, epoch))
        self._start("idle", ticket.epoch)

    def _make_scheme(self, terms: messages.SplitTerms, samples: Samples, cut: str) -> SourceScheme:
        match terms.scheme:
            case "images":
                return ImagesAtSource(terms, samples)
            case "gfl":
                return AveragingAtSource(terms, self._node.name, samples, self._engine, self._allowed)
            case _:
                return BranchAtSource(terms, cut, self._node.name, samples, self._engine, self._allowed)

    async def _sync_all(
        self, scheme: SourceScheme, epoch: int, points: Sequence[messages.SyncPoint], first: int
    ) -> None:
        """Go through the sync points in turn; where gradients come back, a few may be under way at once."""
        assert self._terms is not None
        phase = None
        pending: deque[tuple[messages.SyncPoint, asyncio.Task[messages.Tensors]]] = deque()

        async def apply_first() -> None:
            point, syncing = pending.popleft()
            try:
                reply = await syncing
            except asyncio.CancelledError:
                syncing.cancel()
                raise
            try:
                await scheme.apply(epoch, point, reply)
            except ValueError as error:
                raise BadReply(f"{self._trunk.url} answered {point.phase} {point.number}: {error}") from error

        try:
            for index in range(first, len(points)):
                point = points[index]
                if point.phase != phase:
                    phase = point.phase
                    self._start(_PHASES[phase], epoch)
                most = self._terms.depth - 1 if phase == "step" else 0
                while pending and (len(pending) > most or pending[0][1].done()):
                    await apply_first()
                tensors = await scheme.compute(epoch, point)
                pending.append((point, asyncio.ensure_future(self._sync(epoch, index, tensors))))
            while pending:
                await apply_first()
        finally:
            for _, syncing in pending:
                syncing.cancel()
            await asyncio.gather(*(syncing for _, syncing in pending), return_exceptions=True)

    async def _sync(self, epoch: int, index: int, tensors: messages.Tensors) -> messages.Tensors:
        unsent: messages.Tensors | None = tensors
        while True:
            reply: messages.SyncReply = await self._trunk.sync.coro(self._session, epoch, index, unsent)
            if reply.status == "ready":
                return reply.tensors
            if reply.status == "late":
                raise _Late
            unsent = None  # they are there

    def _start(self, phase: Phase, epoch: int) -> None:
        self._node.record(PhaseStarted, learner=self._node.name, round=epoch, phase=phase)
