"""A peer that cannot be called: it takes the calls to it at a relay, and moves to another one when that is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from paceline import axon
from paceline.axon import loops
from paceline.axon.keys import short
from paceline.axon.messages import Reply, Request
from paceline.axon.retry import retry
from paceline.axon.transports.base import App, answer
from paceline.errors import PacelineError
from paceline.topologies.access import AuditLog
from paceline.topologies.gossip.calls import BROKEN, PAUSE_SECONDS, PeerCalls
from paceline.topologies.gossip.membership import Membership, PeerRecord
from paceline.topologies.gossip.relayed_calls import CallSigner, RelayedCall, RelayedReply, TakenCall

MAX_ANSWERING = 64
"""Calls that a peer answers at once; more wait at its relay."""

_FINDING_SECONDS = 60.0  # that a peer looks for its first relay
_LOOKING_SECONDS = 0.5  # between two rounds through all who may be a relay
_SLOWEST_POLLS = 2  # times that a poll may take what it should, besides what a model in it takes
_LEAST_POLLS = 6  # that long a peer stays with a relay that answers it, whatever others say
_SENDER = "a relay"  # as the app sees it

_log = logging.getLogger(__name__)


class _RelayInUse(NamedTuple):
    record: PeerRecord
    remote: axon.Remote


class RelayClient:
    """Takes calls at one relay after the other, and lets an app answer them.

    A call is believed if it is signed with the key that its caller's record has; that of a peer which is not known yet
    may be any key, as in its record.

    Args:
        poll_seconds: how long a relay holds a poll back, and `hold_seconds` a call.
        on_relay: lets others know of each relay that is found, once the own record names it.
    """

    def __init__(
        self,
        app: App,
        signer: CallSigner,
        membership: Membership,
        calls: PeerCalls,
        rng: random.Random,
        audit: AuditLog,
        *,
        poll_seconds: float,
        hold_seconds: float,
        on_relay: Callable[[PeerRecord], Awaitable[None]],
    ) -> None:
        self._app = app
        self._signer = signer
        self._membership = membership
        self._calls = calls
        self._rng = rng
        self._audit = audit
        self._poll_seconds = poll_seconds
        self._hold_seconds = hold_seconds
        self._on_relay = on_relay
        self._first_life = membership.me.life
        self._numbers = itertools.count(self._first_life)  # of polls: a peer that comes back goes on from there
        self._relay: _RelayInUse | None = None
        self._running: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._announcing: asyncio.Task[None] | None = None
        membership.watch(self._look_at)

    async def begin(self, ask_again: Callable[[], Awaitable[object]]) -> None:
        """Find a relay, and take calls there from now on; raises `PacelineError` if there is none for long.

        Args:
            ask_again: learns of further peers, as long as there is none.
        """
        until = asyncio.get_running_loop().time() + _FINDING_SECONDS
        while not await self._find():
            if asyncio.get_running_loop().time() >= until:
                raise PacelineError(
                    "this peer cannot be called, and of those that it knows, none passes calls on to it; one at least "
                    "must be started without --behind-nat"
                )
            await asyncio.sleep(_LOOKING_SECONDS)
            await ask_again()
        self._running = asyncio.ensure_future(self._run())

    async def aclose(self) -> None:
        """Take no more calls, and let the relay know."""
        tasks = {
            task for task in (self._running, self._polling, self._announcing, *self._answering) if task is not None
        }
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._relay is not None:
            with contextlib.suppress(*BROKEN):
                await self._poll(self._relay, "close")

    async def _run(self) -> None:
        """Take calls, and move to another relay whenever one is lost; without an end."""
        while True:
            try:
                if self._relay is not None:
                    self._polling = asyncio.ensure_future(self._take_from(self._relay))
                    await asyncio.wait((self._polling,))
                    if not self._polling.cancelled():
                        self._polling.result()
                await self._find()
            except Exception:
                _log.exception("%s could not look for a relay; it goes on", self._membership.me.name)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _find(self) -> bool:
        """Move to one of those that can be called, rather not to the last one; returns whether one was found."""
        others = [record for record in self._membership.others() if record.relay is None and record.key]
        self._rng.shuffle(others)
        last, self._relay = self._relay, None
        for record in sorted(others, key=lambda record: last is not None and record.name == last.record.name):
            try:
                relay = _RelayInUse(record, self._calls.reach_relay(record))
                await self._poll(relay, "open")
            except BROKEN:
                continue
            self._relay = relay
            self._membership.move(record)
            if self._announcing is not None:
                self._announcing.cancel()
            self._announcing = asyncio.ensure_future(self._on_relay(record))
            return True
        return False

    async def _take_from(self, relay: _RelayInUse) -> None:
        """Take calls at a relay until it is lost, or others miss this peer there."""
        loop = asyncio.get_running_loop()
        least_until = loop.time() + _LEAST_POLLS * self._poll_seconds
        number, num_missed = 0, self._membership.num_missed
        with contextlib.suppress(*BROKEN):
            while num_missed == self._membership.num_missed or loop.time() < least_until:
                taken = await retry(
                    lambda: self._poll(relay, "wait", number),  # noqa: B023  (awaited in this turn)
                    give_up_seconds=self._poll_seconds,
                )
                if taken is not None:
                    number = taken.number
                    self._answer(relay, taken)
                    while len(self._answering) >= MAX_ANSWERING:
                        await asyncio.wait(self._answering, return_when=asyncio.FIRST_COMPLETED)

    async def _poll(self, relay: _RelayInUse, intent: str, after: int = 0) -> TakenCall | None:
        poll = self._signer.poll(relay.record, number=next(self._numbers), after=after, intent=intent)
        seconds = _SLOWEST_POLLS * self._poll_seconds + self._calls.transfers.allowed_seconds(relay.record.name)
        remote = relay.remote.until(asyncio.get_running_loop().time() + seconds)
        taken: TakenCall | None = await remote.take_call.coro(poll)
        return taken

    def _answer(self, relay: _RelayInUse, taken: TakenCall) -> None:
        answering = asyncio.ensure_future(self._send_answer(relay, taken))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    async def _send_answer(self, relay: _RelayInUse, taken: TakenCall) -> None:
        """Answer a call, as long as somebody may wait for that."""
        with contextlib.suppress(asyncio.TimeoutError, *BROKEN):
            await loops.within(self._hold_seconds, self._try_to_answer(relay, taken))

    async def _try_to_answer(self, relay: _RelayInUse, taken: TakenCall) -> None:
        reply = await self.reply(taken.call)
        while not await retry(
            lambda: relay.remote.answer_call.coro(taken.number, reply), give_up_seconds=self._hold_seconds
        ):
            await asyncio.sleep(PAUSE_SECONDS)

    async def reply(self, call: RelayedCall) -> RelayedReply:
        """Return the app's answer to a call, or why it is not believed."""
        why = self._why_refused(call)
        if why is not None:
            self._audit.record("refusal", name=call.caller, key=short(call.key), address=_SENDER, detail=why)
            reply = Reply.refusal(403, why)
        else:
            headers = {"content-type": call.content_type}
            if call.call_id:
                headers["axon-call"] = call.call_id
            request = Request(call.method, call.path, {}, headers, [memoryview(bytearray(call.body))], _SENDER)
            reply = await answer(self._app, request)
        if reply.stream is not None:
            await reply.stream.aclose()
            reply = Reply.refusal(501, "streams do not pass a relay")
        return self._signer.reply(
            call, status=reply.status, content_type=reply.headers.get("content-type", ""), body=b"".join(reply.body)
        )

    def _why_refused(self, call: RelayedCall) -> str | None:
        if not self._signer.is_for_me(call) or not self._first_life <= call.life <= self._membership.me.life:
            return "this call is to another peer, or to a life that this one was in before"
        if not self._signer.is_of_caller(call):
            return "this call is not signed with the key that it names"
        known = self._membership.get(call.caller)
        if known is not None and known.key != call.key:
            return f"{call.caller!r} is another device's name: give each a name of its own"
        return None

    def _look_at(self, record: PeerRecord, reason: str) -> None:
        """Leave a relay that is dead; one that said goodbye goes on as long as it answers."""
        if self._relay is None or self._polling is None or record.name != self._relay.record.name:
            return
        if record.status == "dead" or record.life != self._relay.record.life:
            self._polling.cancel()
