"""A relay: any peer that can be called holds the calls to those that cannot, until these take and answer them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.axon import loops
from paceline.topologies.gossip.membership import PeerRecord
from paceline.topologies.gossip.relayed_calls import CallSigner, Poll, RelayedCall, RelayedReply, TakenCall

MAX_MAILBOXES = 32
"""Peers that one peer is the relay of."""

MAX_HELD_CALLS = 64
"""Calls to one peer that wait for its answer."""

MAX_HELD_MESSAGES = 16
"""Bytes that are held for all, in messages of the largest size; calls may take half, the rest is for answers."""

_PAUSE_SECONDS = 0.1  # between two looks whether it is still needed


@dataclass(eq=False)
class _HeldCall:
    number: int
    call: RelayedCall
    answer: asyncio.Future[RelayedReply | None]


@dataclass(eq=False)
class _Mailbox:
    """What is held for a peer."""

    last_poll: int  # number of it
    seen_at: float
    held: dict[int, _HeldCall] = field(default_factory=dict)  # by number, in their order
    num_waiting: int = 0  # polls under way; a later one ends those before
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def notify(self) -> None:
        """Wake the poll."""
        self.changed.set()
        self.changed = asyncio.Event()

    def next_after(self, number: int) -> TakenCall | None:
        """Return the first call after a number: one whose poll was lost comes again."""
        held = next((held for held in self.held.values() if held.number > number), None)
        return None if held is None else TakenCall(number=held.number, call=held.call)


class Relay:
    """Mailboxes of peers, each opened by the first poll with a name and a key, and found by both.

    It believes nobody by name: who polls and who answers proves to own the key. It need not understand what passes.

    Args:
        me: returns the record of the peer that is the relay.
        poll_seconds: how long a poll waits for a call; a mailbox that is not asked for twice that long is closed.
        hold_seconds: how long a call is held.
        max_message_bytes: size of the largest message.
    """

    def __init__(
        self,
        signer: CallSigner,
        me: Callable[[], PeerRecord],
        *,
        poll_seconds: float,
        hold_seconds: float,
        max_message_bytes: int,
    ) -> None:
        self.signer = signer
        self._me = me
        self.poll_seconds = poll_seconds
        self.hold_seconds = hold_seconds
        self._max_held_bytes = MAX_HELD_MESSAGES * max_message_bytes
        self._num_held_bytes = 0
        self._numbers = itertools.count(1)  # of the calls to all: a mailbox that opens again gives none twice
        self._mailboxes: dict[tuple[str, str], _Mailbox] = {}
        self._held: dict[int, _HeldCall] = {}  # of all

    async def take(self, poll: Poll) -> TakenCall | None:
        """Wait for the next call to the peer that polls; None if there is none so far.

        Raises `ValueError` if it is not the owner of its key, or there are too many already.
        """
        if not self.signer.is_of_owner(self._me(), poll):
            raise ValueError("this poll is not signed with its key, for this relay and the life that it is in")
        mailbox = self._mailbox(poll)
        if poll.number <= mailbox.last_poll:
            raise ValueError(f"poll {poll.number} came before")
        mailbox.last_poll = poll.number
        if poll.intent != "wait":
            if poll.intent == "close":
                self._close((poll.name, poll.key))
            return None
        mailbox.notify()
        mailbox.num_waiting += 1
        loop = asyncio.get_running_loop()
        until = loop.time() + self.poll_seconds
        try:
            while (taken := mailbox.next_after(poll.after)) is None and mailbox.last_poll == poll.number:
                await loops.within(until - loop.time(), mailbox.changed.wait())
        except asyncio.TimeoutError:
            return None
        finally:
            mailbox.num_waiting -= 1
            mailbox.seen_at = loop.time()
        return taken

    async def answer(self, number: int, reply: RelayedReply) -> bool:
        """Pass on the answer to a call; False if there is no room for it now. Nobody may wait for it any more.

        Raises `ValueError` if it does not come from the peer that was called.
        """
        held = self._held.get(number)
        if held is None or held.answer.done():
            return True
        if not self.signer.is_of_called(held.call, reply):
            raise ValueError(f"the answer to call {number} is not signed by the peer that was called")
        if self._num_held_bytes + len(reply.body) > self._max_held_bytes:
            return False
        self._num_held_bytes += len(reply.body)
        held.answer.set_result(reply)
        return True

    async def call(self, call: RelayedCall) -> RelayedReply | None:
        """Hold a call until it is answered; None if the peer takes none here now, or too much is held."""
        mailbox = self._mailboxes.get((call.to, call.to_key))
        if mailbox is None or not self._is_open(mailbox) or len(mailbox.held) >= MAX_HELD_CALLS:
            return None
        if self._num_held_bytes + len(call.body) > self._max_held_bytes / 2:
            return None
        held = _HeldCall(next(self._numbers), call, asyncio.get_running_loop().create_future())
        self._held[held.number] = mailbox.held[held.number] = held
        self._num_held_bytes += len(call.body)
        mailbox.notify()
        try:
            return await loops.within(self.hold_seconds, asyncio.shield(held.answer))
        except asyncio.TimeoutError:
            return None
        finally:
            del mailbox.held[held.number], self._held[held.number]
            reply = held.answer.result() if held.answer.done() else None
            self._num_held_bytes -= len(call.body) + (0 if reply is None else len(reply.body))

    async def linger(self, seconds: float) -> None:
        """Go on for those who need it, but not for long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while any(map(self._is_open, self._mailboxes.values())) and loop.time() < until:
            await asyncio.sleep(_PAUSE_SECONDS)

    def _mailbox(self, poll: Poll) -> _Mailbox:
        owner = (poll.name, poll.key)
        mailbox = self._mailboxes.get(owner)
        if mailbox is None:
            for unused in [other for other, one in self._mailboxes.items() if not self._is_open(one)]:
                self._close(unused)
            if len(self._mailboxes) >= MAX_MAILBOXES:
                raise ValueError(f"this peer is the relay of {MAX_MAILBOXES} others already")
            now = asyncio.get_running_loop().time()
            mailbox = self._mailboxes[owner] = _Mailbox(last_poll=poll.number - 1, seen_at=now)
        return mailbox

    def _is_open(self, mailbox: _Mailbox) -> bool:
        silent_seconds = asyncio.get_running_loop().time() - mailbox.seen_at
        return mailbox.num_waiting > 0 or silent_seconds < 2 * self.poll_seconds

    def _close(self, owner: tuple[str, str]) -> None:
        mailbox = self._mailboxes.pop(owner)
        for held in mailbox.held.values():
            if not held.answer.done():
                held.answer.set_result(None)
        mailbox.notify()
