"""A duplex call on its worker: it outlives its request, and its results wait to be confirmed."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from paceline.axon import loops
from paceline.axon.messages import Body
from paceline.axon.transports.base import Address

_AHEAD = 64  # messages of a stream that may wait for confirmation


class Message(NamedTuple):
    """One frame for the caller, numbered from 1."""

    number: int
    body: Body
    is_last: bool


@dataclass(eq=False)
class Call:
    """A call that has been confirmed, until its caller has confirmed everything in turn."""

    call_id: str
    content_type: str
    is_stream: bool
    outbox: deque[Message] = field(default_factory=deque)
    reply_address: Address | None = None
    reply_token: str = ""
    is_push_failing: bool = False
    ended_at: float | None = None  # loop time of the last message
    touched_at: float = 0.0  # loop time at which the caller was last heard of
    is_blocked: bool = False  # a stream that waits for its caller to catch up
    running: asyncio.Task[None] | None = None
    pushing: asyncio.Task[None] | None = None
    expiring: asyncio.TimerHandle | None = None
    _num_messages: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, body: Body, *, is_last: bool) -> None:
        """Add a message; a stream waits here while its caller is far behind."""
        while len(self.outbox) >= _AHEAD and not is_last:
            self.is_blocked = True
            await self._changed.wait()
        self.is_blocked = False
        self._num_messages += 1
        self.outbox.append(Message(self._num_messages, body, is_last))
        if is_last:
            self.ended_at = asyncio.get_running_loop().time()
            self.touch()
        self.notify()

    def touch(self) -> None:
        """Note that the caller was heard of."""
        self.touched_at = asyncio.get_running_loop().time()

    def confirm(self, number: int) -> None:
        """Drop the messages up to this one: the caller has them."""
        self.touch()
        while self.outbox and self.outbox[0].number <= number:
            self.outbox.popleft()
        self.notify()

    def mark_push(self, is_failing: bool) -> None:
        """Note whether deliveries get through; if not, the caller may fetch."""
        self.is_push_failing = is_failing
        self.notify()

    def notify(self) -> None:
        """Wake whoever waits for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def next_to_push(self) -> Message:
        """Wait for the oldest unconfirmed message."""
        while not self.outbox:
            await self._changed.wait()
        return self.outbox[0]

    async def next_to_fetch(self, after: int, wait_seconds: float, *, is_pushed: bool) -> Message | None:
        """Wait for the first message after number `after`, at most so long; confirms those before.

        `is_pushed` says that the caller expects deliveries: then it gets only what could not be delivered.
        """
        self.confirm(after)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        try:
            while not self.outbox or (is_pushed and not self.is_push_failing):
                await loops.within(until - loop.time(), self._changed.wait())
        except asyncio.TimeoutError:
            return None
        return self.outbox[0]
