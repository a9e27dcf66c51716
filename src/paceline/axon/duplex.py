"""The worker's side of duplex calls: they outlive their request, and their results wait to be confirmed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from paceline.axon import loops
from paceline.axon.messages import Body, Request, num_bytes
from paceline.axon.replies import ReplyTo
from paceline.axon.retry import retry
from paceline.axon.transports.base import Address, Transport
from paceline.axon.trust import bearer
from paceline.axon.wire import Kind
from paceline.errors import Refused, TransportError

MAX_CALLS = 1024
KEEP_SECONDS = 3600.0  # a result that nobody fetched
PUSH_SECONDS = 60.0  # for one delivery, besides what its bytes take
STALL_SECONDS = 5.0  # after so long a delivery counts as failing, though it may still get through
SLOW_BYTES_PER_SECOND = 250_000.0  # links are not slower than this without being waited for
GIVE_UP_SECONDS = 600.0  # delivering to a caller that does not answer; it may still fetch
MAX_POLL_SECONDS = 60.0
REMEMBERED_IDS = 1 << 16
_AHEAD = 64  # messages of a stream that may wait for confirmation


Bodies: TypeAlias = "AsyncGenerator[tuple[Kind, Body], None]"
"""What a call sends back: any number of items, then its result or error."""


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
    running: asyncio.Task[None] | None = None
    pushing: asyncio.Task[None] | None = None
    _num_messages: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, body: Body, *, is_last: bool) -> None:
        """Add a message; a stream waits here while its caller is far behind."""
        while len(self.outbox) >= _AHEAD and not is_last:
            await self._changed.wait()
        self._num_messages += 1
        self.outbox.append(Message(self._num_messages, body, is_last))
        if is_last:
            self.ended_at = asyncio.get_running_loop().time()
        self.notify()

    def confirm(self, number: int) -> None:
        """The caller has all messages up to this one."""
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
        """The oldest unconfirmed message."""
        while not self.outbox:
            await self._changed.wait()
        return self.outbox[0]

    async def next_to_fetch(self, after: int, wait_seconds: float, *, is_pushed: bool) -> Message | None:
        """The first message after number `after`, waited for at most so long; confirms those before.

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


class CallTable:
    """All duplex calls of a worker, and the ids of every call it has seen lately."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._calls: dict[str, Call] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()

    def get(self, call_id: str) -> Call | None:
        """The call of that id, if it is still known."""
        return self._calls.get(call_id)

    def see(self, call_id: str) -> bool:
        """Note an id; True if it was seen before, so that the call must not be run again."""
        if call_id in self._seen:
            return True
        self._seen[call_id] = None
        if len(self._seen) > REMEMBERED_IDS:
            self._seen.popitem(last=False)
        return False

    def is_full(self) -> bool:
        """Whether no further call may be started."""
        self._drop_stale()
        return len(self._calls) >= MAX_CALLS

    def start(self, call_id: str, bodies: Bodies, *, content_type: str, is_stream: bool) -> Call:
        """Run a call; `bodies` yields what it sends, the result or error last."""
        call = self._calls[call_id] = Call(call_id, content_type, is_stream)
        call.running = asyncio.ensure_future(self._run(call, bodies))
        return call

    def deliver_to(self, call: Call, reply_to: ReplyTo | None, peer: str) -> None:
        """Push the call's messages to its caller on the host it called from, or (None) let it fetch them."""
        if call.pushing is not None:
            call.pushing.cancel()
            call.pushing = None
        if reply_to is not None:
            call.reply_address, call.reply_token = reply_to.address(peer), reply_to.token
            call.is_push_failing = False
            call.pushing = asyncio.ensure_future(self._push(call))

    def forget(self, call_id: str) -> None:
        """The caller has everything, or has given up: then the function is stopped where it can be."""
        call = self._calls.pop(call_id, None)
        if call is not None:
            for task in (call.running, call.pushing):
                if task is not None and task is not asyncio.current_task():
                    task.cancel()

    @property
    def num_open(self) -> int:
        """Calls that run, or whose result is not confirmed."""
        return len(self._calls)

    async def close(self) -> None:
        """Cancel everything."""
        tasks = [task for call in self._calls.values() for task in (call.running, call.pushing) if task]
        for call_id in list(self._calls):
            self.forget(call_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, call: Call, bodies: Bodies) -> None:
        async with contextlib.aclosing(bodies):
            async for kind, body in bodies:
                await call.put(body, is_last=kind is not Kind.ITEM)

    async def _push(self, call: Call) -> None:
        while True:
            message = await call.next_to_push()
            try:
                await retry(functools.partial(self._post, call, message), give_up_seconds=GIVE_UP_SECONDS)
            except TransportError:
                return  # the caller may still fetch it
            call.confirm(message.number)
            if message.is_last:
                self.forget(call.call_id)
                return

    async def _post(self, call: Call, message: Message) -> None:
        assert call.reply_address is not None
        headers = {
            "content-type": call.content_type,
            "axon-number": str(message.number),
            **bearer(call.reply_token),
        }
        request = Request("POST", f"/results/{call.call_id}", {}, headers, message.body)
        num_body_bytes = num_bytes(message.body)
        stall_seconds = STALL_SECONDS + num_body_bytes / SLOW_BYTES_PER_SECOND
        stalled = asyncio.get_running_loop().call_later(stall_seconds, call.mark_push, True)
        try:
            timeout = PUSH_SECONDS + num_body_bytes / (SLOW_BYTES_PER_SECOND / 5)
            reply = await self._transport.request(call.reply_address, request, timeout=timeout)
            if reply.status != 200:
                raise Refused(f"{call.reply_address} takes no such delivery", status=reply.status)
        except TransportError:
            call.mark_push(True)
            raise
        finally:
            stalled.cancel()
        call.mark_push(False)

    def _drop_stale(self) -> None:
        now = asyncio.get_running_loop().time()
        for call in list(self._calls.values()):
            if call.ended_at is not None and now - call.ended_at > KEEP_SECONDS:
                self.forget(call.call_id)
