"""The worker's side of duplex calls: start and confirm them, deliver their results, have them fetched, forget them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from paceline.axon import loops
from paceline.axon.access import bearer
from paceline.axon.duplex.inbox import ReplyTo
from paceline.axon.messages import Body, Reply, Request, num_bytes
from paceline.axon.retry import retry
from paceline.axon.transports.base import Address, Transport
from paceline.axon.wire import Kind
from paceline.axon.wire.codings import Bodies
from paceline.errors import Refused, TransportError

MAX_CALLS = 1024
_AHEAD = 64  # messages of a stream that may wait for confirmation
KEEP_SECONDS = 3600.0  # a result that nobody fetched
BLOCKED_SECONDS = 300.0  # a stream whose caller is behind and silent; also how often that is looked at
PUSH_SECONDS = 60.0  # for one delivery, besides what its bytes take
STALL_SECONDS = 5.0  # after so long a delivery counts as failing, though it may still get through
SLOW_BYTES_PER_SECOND = 250_000.0  # links are not slower than this without being waited for
GIVE_UP_SECONDS = 600.0  # delivering to a caller that does not answer; it may still fetch
MAX_POLL_SECONDS = 60.0
REMEMBERED_IDS = 1 << 16
REMEMBERED_SECONDS = 600.0  # ids of duplex calls that are over; callers repeat requests for less long
_ANNOUNCED_BYTES = 1 << 18  # a long-poll for a larger message gets its size first, so that the caller plans for it


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


class _Ended(NamedTuple):
    at: float  # loop time
    is_stream: bool


class DuplexServer:
    """The duplex calls of one worker, and the ids of those that have ended lately."""

    def __init__(self, transport: Transport, device: str) -> None:
        self._transport = transport
        self._device = device
        self._calls: dict[str, Call] = {}
        self._ended: OrderedDict[str, _Ended] = OrderedDict()

    @property
    def num_open(self) -> int:
        """Number of calls that run, or whose result is not confirmed."""
        return len(self._calls)

    def knows(self, call_id: str) -> bool:
        """Return whether a call of that id runs, waits to be confirmed, or has ended lately."""
        return call_id in self._calls or call_id in self._ended

    def confirm_known(self, request: Request, call_id: str) -> Reply | None:
        """Confirm a request that came before: its call runs, or has run. None for a new one; raises `ValueError`."""
        if not call_id:
            raise ValueError("axon-call: a duplex call needs an id")
        reply_to = ReplyTo.parse(request.headers["axon-reply-to"])
        call = self._calls.get(call_id)
        if call is not None:
            self._deliver_to(call, reply_to, request.peer)
        known = call or self._ended.get(call_id)
        return None if known is None else _confirmation(known.is_stream)

    def start(self, request: Request, call_id: str, bodies: Bodies, *, content_type: str, is_stream: bool) -> Reply:
        """Run a call, and confirm it; `bodies` yields what it sends, the result or error last."""
        if len(self._calls) >= MAX_CALLS:
            return Reply.refusal(503, f"{self._device} is full of calls")
        call = self._calls[call_id] = Call(call_id, content_type, is_stream)
        call.running = asyncio.ensure_future(self._run(call, bodies))
        self._expire(call)
        self._deliver_to(call, ReplyTo.parse(request.headers["axon-reply-to"]), request.peer)
        return _confirmation(is_stream)

    async def fetch(self, request: Request, call_id: str) -> Reply:
        """Answer a caller that polls for the next message."""
        call = self._calls.get(call_id)
        if call is None:
            return Reply.refusal(404, f"{self._device} does not know call {call_id}: it restarted, or the call is over")
        try:
            after = int(request.query.get("after", 0))
            wait_seconds = min(float(request.query.get("wait", 0)), MAX_POLL_SECONDS)
            if not wait_seconds >= 0:
                raise ValueError(f"wait is {wait_seconds}")
        except ValueError as error:
            return Reply.refusal(400, f"after and wait are numbers from 0 on: {error}")
        message = await call.next_to_fetch(after, wait_seconds, is_pushed="pushed" in request.query)
        headers = {"axon-stream": str(int(call.is_stream))}
        if message is None:
            return Reply(204, headers)
        if wait_seconds and num_bytes(message.body) > _ANNOUNCED_BYTES:
            return Reply(204, headers | {"axon-waiting": str(num_bytes(message.body))})
        headers |= {"content-type": call.content_type, "axon-number": str(message.number)}
        return Reply(200, headers, message.body)

    def forget(self, call_id: str) -> None:
        """Forget a call whose caller has everything, or has given up: then the function is stopped where it can be.

        The id is remembered for a while, so that a request that was long on its way does not run it again.
        """
        call = self._calls.pop(call_id, None)
        self._remember(call_id, is_stream=call is not None and call.is_stream)
        if call is not None:
            for task in (call.running, call.pushing, call.expiring):
                if task is not None and task is not asyncio.current_task():
                    task.cancel()

    async def close(self) -> None:
        """Cancel everything."""
        tasks = [task for call in self._calls.values() for task in (call.running, call.pushing) if task]
        for call_id in list(self._calls):
            self.forget(call_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _deliver_to(self, call: Call, reply_to: ReplyTo | None, peer: str) -> None:
        """Push the call's messages to its caller on the host it called from, or (None) let it fetch them."""
        call.touch()
        if call.pushing is not None:
            call.pushing.cancel()
            call.pushing = None
        if reply_to is not None:
            call.reply_address, call.reply_token = reply_to.address(peer), reply_to.token
            call.is_push_failing = False
            call.pushing = asyncio.ensure_future(self._push(call))

    def _remember(self, call_id: str, *, is_stream: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._ended[call_id] = _Ended(now, is_stream)
        self._ended.move_to_end(call_id)
        while self._ended:
            oldest = next(iter(self._ended.values()))
            if len(self._ended) <= REMEMBERED_IDS and now - oldest.at < REMEMBERED_SECONDS:
                return
            self._ended.popitem(last=False)

    def _expire(self, call: Call) -> None:
        """Forget a call that nobody has asked for in a long time: its result, or a stream that waits for its reader."""
        loop = asyncio.get_running_loop()
        keep_seconds = KEEP_SECONDS if call.ended_at is not None else BLOCKED_SECONDS
        is_waiting = call.ended_at is not None or call.is_blocked
        if is_waiting and loop.time() - call.touched_at >= keep_seconds:
            self.forget(call.call_id)
        else:
            call.expiring = loop.call_later(BLOCKED_SECONDS, self._expire, call)

    async def _run(self, call: Call, bodies: Bodies) -> None:
        try:
            async with contextlib.aclosing(bodies):
                async for kind, body in bodies:
                    await call.put(body, is_last=kind is not Kind.ITEM)
        finally:
            if call.ended_at is None:  # the function cancelled itself: say so by not knowing the call any more
                self.forget(call.call_id)

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
        headers = {"content-type": call.content_type, "axon-number": str(message.number), **bearer(call.reply_token)}
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


def _confirmation(is_stream: bool) -> Reply:
    return Reply(202, {"axon-stream": str(int(is_stream))})
