"""The one asynchronous core of every client: stubs, `connect` and fan-out are faces of `Caller`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from paceline.axon import loops, wire
from paceline.axon.client.replies import Inbox, ReplyDesk, desk_for
from paceline.axon.listing import Listing, RemoteFailure
from paceline.axon.messages import AXON_TYPE, Body, Reply, Request, Stream, num_bytes
from paceline.axon.retry import retry
from paceline.axon.transports.base import Address, Transport
from paceline.axon.trust import bearer, check_token
from paceline.axon.wire import Kind, Limits
from paceline.errors import (
    BadReply,
    ConfigError,
    ConnectionLost,
    Refused,
    RemoteError,
    TimedOut,
    TransportError,
    WireError,
)

SIMPLEX_SECONDS = 120.0
DUPLEX_SECONDS = 86400.0
_POLL_SECONDS = 20.0  # shorter than the idle limits of the usual middle boxes
_REQUEST_SECONDS = 10.0  # a request that is answered at once, besides what its bytes take
_SLOW_BYTES_PER_SECOND = 50_000.0
_WATCH_AFTER_SECONDS = 1.0  # a duplex call shorter than this costs no watching
_FORGET_SECONDS = 5.0

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How calls are made.

    Attributes:
        timeout_seconds: how long a call may take, or each item of a stream; None is two minutes, and a day for
            duplex calls.
        duplex: False for one request per call. True for a call that is confirmed at once and whose result comes
            in a request of the worker's own, or by long-poll where the worker cannot reach this side.
        reachable: False if the worker need not try to reach this side: poll from the start.
        patience_seconds: how long a duplex call bears a worker that does not answer before it counts as lost.
        limits: what is accepted from the worker.
    """

    timeout_seconds: float | None = None
    duplex: bool = False
    reachable: bool = True
    patience_seconds: float = 20.0
    limits: Limits = wire.DEFAULT_LIMITS

    def __post_init__(self) -> None:
        if self.timeout_seconds is not None and not self.timeout_seconds > 0:
            raise ConfigError(f"timeout_seconds is {self.timeout_seconds}; it must be above 0")

    @property
    def deadline_seconds(self) -> float:
        """The timeout, or its default."""
        return self.timeout_seconds or (DUPLEX_SECONDS if self.duplex else SIMPLEX_SECONDS)


class Caller:
    """Calls the functions of one worker; may be used from any event loop."""

    def __init__(
        self,
        transport: Transport,
        address: Address,
        token: str | None = None,
        options: CallOptions = CallOptions(),  # noqa: B008  (frozen)
    ) -> None:
        check_token(token)
        self.transport = transport
        self.address = address
        self.options = options
        self._token = token

    def with_options(self, options: CallOptions) -> Caller:
        """A caller of the same worker, with other options."""
        return Caller(self.transport, self.address, self._token, options)

    @property
    def may_pause(self) -> bool:
        """Whether a call needs its event loop only while someone waits for it, so that a blocked thread can run it."""
        return not self.options.duplex and self.transport.is_free_of_loops

    async def call(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, call_id: str | None = None
    ) -> Any:
        """Call the function and return its result, or a `ValueStream` if it is a generator.

        Args:
            call_id: given by who wants to repeat the call or reattach to it; the function is never run twice
                for one id.
        """
        body = wire.encode(Kind.CALL, [list(args), dict(kwargs)], self.options.limits)
        headers = {"content-type": AXON_TYPE, **bearer(self._token)}
        request = Request("POST", f"/rpc/{name}", {}, headers, body)
        if self.options.duplex:
            call_id = call_id or new_call_id()
        if call_id is not None:  # a simplex call is sent once, and needs none unless its caller wants to repeat it
            headers["axon-call"] = call_id
        if self.options.duplex:
            return await self._call_duplex(request, _Conversation(headers["axon-call"], name))
        reply = await self._send(request)
        if reply.stream is None:
            self._check(reply)
            return self._result(reply.body)
        try:
            self._check(reply)
        except TransportError:
            await reply.stream.aclose()
            raise
        return ValueStream(self._items(reply.stream, name), reply.stream.aclose)

    async def reattach(self, call_id: str) -> Any:
        """The result (or what is left of the stream) of a duplex call that was started earlier.

        Whoever made the call may be gone; its id is all that is needed.
        """
        conversation = _Conversation(call_id, f"call {call_id}")
        status = await self._fetch(conversation, 0, is_pushed=True)
        return await self._receive(conversation, is_stream=status.headers.get("axon-stream") == "1")

    async def listing(self) -> Listing:
        """What the worker offers."""
        reply = await self._send(Request("GET", "/", {}, bearer(self._token)))
        self._check(reply)
        try:
            return msgspec.json.decode(reply.content, type=Listing)
        except msgspec.MsgspecError as error:
            raise BadReply(f"{self.address} does not list functions as a worker does: {error}") from error

    # Duplex calls.

    async def _call_duplex(self, request: Request, conversation: _Conversation) -> Any:
        await self._open_desk(conversation)
        request.headers = {**request.headers, "axon-reply-to": conversation.reply_to}
        timeout = self._transfer_seconds(num_bytes(request.body))
        try:
            reply = await retry(
                lambda: self.transport.request(self.address, request, timeout=timeout),
                give_up_seconds=self.options.patience_seconds,
            )
            self._check(reply, expected=202)
        except BaseException:
            await self._end(conversation)
            raise
        return await self._receive(conversation, is_stream=reply.headers.get("axon-stream") == "1")

    async def _open_desk(self, conversation: _Conversation) -> None:
        """Have the result delivered, if this side can listen at all; else it is fetched."""
        if self.options.reachable:
            with contextlib.suppress(TransportError, ConfigError):
                conversation.use(await desk_for(self.transport, self.address, self.options.limits.max_body_bytes))

    async def _receive(self, conversation: _Conversation, *, is_stream: bool) -> Any:
        bodies = self._delivered(conversation)
        if is_stream:
            return ValueStream(self._items(bodies, conversation.name), lambda: self._end(conversation))
        async with contextlib.aclosing(bodies):
            return self._result(await self._in_time(anext(bodies), conversation.name))

    async def _delivered(self, conversation: _Conversation) -> AsyncGenerator[Body, None]:
        """Messages as they come, without an end: who has seen the last one closes this."""
        watching = asyncio.ensure_future(self._watch(conversation))
        try:
            while True:
                yield await conversation.inbox.next()
        finally:
            watching.cancel()
            await self._end(conversation)

    async def _watch(self, conversation: _Conversation) -> None:
        """Long-poll: learn of a worker that died, and fetch what it could not deliver."""
        inbox, is_pushed = conversation.inbox, conversation.desk is not None
        if is_pushed:
            await asyncio.sleep(_WATCH_AFTER_SECONDS)
        try:
            while True:
                await inbox.room()
                reply = await retry(
                    lambda: self._poll(conversation, is_pushed=is_pushed),
                    give_up_seconds=self.options.patience_seconds,
                )
                if reply.status != 204:
                    inbox.deliver(int(reply.headers.get("axon-number", 0)), reply.body, is_pushed=False)
        except Refused as error:
            inbox.fail(ConnectionLost(str(error)) if error.status == 404 else error)
        except (TransportError, ValueError) as error:
            inbox.fail(ConnectionLost(f"{self.address} was lost while it ran {conversation.name}: {error}"))

    async def _poll(self, conversation: _Conversation, *, is_pushed: bool) -> Reply:
        """Ask for the next message. A large one is announced first, so that it is given the time it needs."""
        reply = await self._fetch(conversation, _POLL_SECONDS, is_pushed=is_pushed)
        num_waiting_bytes = int(reply.headers.get("axon-waiting", 0))
        if num_waiting_bytes:
            reply = await self._fetch(conversation, 0, is_pushed=is_pushed, num_expected_bytes=num_waiting_bytes)
        return reply

    async def _fetch(
        self, conversation: _Conversation, wait_seconds: float, *, is_pushed: bool, num_expected_bytes: int = 0
    ) -> Reply:
        query = {"after": str(conversation.inbox.last_number), "wait": str(wait_seconds)}
        if is_pushed:
            query["pushed"] = "1"
        request = Request("GET", f"/calls/{conversation.call_id}", query, bearer(self._token))
        timeout = wait_seconds + self._transfer_seconds(num_expected_bytes)
        reply = await self.transport.request(self.address, request, timeout=timeout)
        if reply.status != 204:
            self._check(reply)
        return reply

    async def _end(self, conversation: _Conversation) -> None:
        """Take no more deliveries, and let the worker forget the call: it stops one that still runs."""
        if conversation.is_over:
            return
        conversation.leave()
        if conversation.inbox.is_settled or loops.is_shutting_down():
            return  # the last message was pushed and confirmed; or a later process may want to reattach
        request = Request("DELETE", f"/calls/{conversation.call_id}", {}, bearer(self._token))
        with contextlib.suppress(TransportError):  # the worker forgets by itself, later
            await self.transport.request(self.address, request, timeout=_FORGET_SECONDS)

    @staticmethod
    def _transfer_seconds(num_bytes: int) -> float:
        """How long one request of a duplex call may take that does not wait for the function."""
        return _REQUEST_SECONDS + num_bytes / _SLOW_BYTES_PER_SECOND

    # Requests and replies.

    async def _send(self, request: Request) -> Reply:
        return await self.transport.request(self.address, request, timeout=self.options.deadline_seconds)

    async def _in_time(self, awaitable: Awaitable[T], name: str) -> T:
        try:
            return await loops.within(self.options.deadline_seconds, awaitable)
        except asyncio.TimeoutError:
            seconds = self.options.deadline_seconds
            raise TimedOut(f"{self.address} did not answer {name} within {seconds:g} s") from None

    async def _items(self, bodies: AsyncGenerator[Body, None] | Stream, name: str) -> AsyncGenerator[Any, None]:
        async with contextlib.aclosing(bodies):
            while True:
                try:
                    body = await self._in_time(anext(bodies), name)
                except StopAsyncIteration:
                    raise ConnectionLost(f"{self.address} ended the stream of {name} halfway") from None
                kind, value = self._decode(body)
                if kind is not Kind.ITEM:
                    self._result_of(kind, value)
                    return
                yield value

    def _check(self, reply: Reply, expected: int = 200) -> None:
        """Raise for a refusal; an error of the far function passes, it is a frame like a result."""
        if reply.status == expected or reply.headers.get("content-type") == AXON_TYPE:
            return
        try:
            message = json.loads(bytes(reply.content))["error"]
        except (ValueError, KeyError, TypeError):
            text = f"{self.address} answered status {reply.status} and no reason: is it an Axon worker?"
            raise BadReply(text) from None
        raise Refused(f"{self.address}: {message}", status=reply.status)

    def _decode(self, body: Body) -> tuple[Kind, Any]:
        try:
            return wire.decode(memoryview(body[0]) if body else memoryview(b""), self.options.limits)
        except WireError as error:
            raise BadReply(f"{self.address}: {error}") from error

    def _result(self, body: Body) -> Any:
        return self._result_of(*self._decode(body))

    def _result_of(self, kind: Kind, value: Any) -> Any:
        if kind is Kind.RESULT:
            return value
        if kind is not Kind.ERROR:
            raise BadReply(f"{self.address} answered with a frame of kind {kind.name}")
        try:
            failure = msgspec.convert(value, RemoteFailure)
        except msgspec.ValidationError as error:
            raise BadReply(f"{self.address} answered with a malformed error: {error}") from error
        raise RemoteError(failure.type, failure.message, device=failure.device, remote_traceback=failure.traceback)


class ValueStream:
    """The items of a generator as they come, for ``async for``. Closing it early stops the far generator."""

    def __init__(self, items: AsyncGenerator[Any, None], close: Callable[[], Awaitable[object]]) -> None:
        self._items = items
        self._close = close

    def __aiter__(self) -> ValueStream:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._items)

    async def take(self) -> tuple[bool, Any]:
        """True and the next item, or False at the end: what can be passed to another thread."""
        try:
            return True, await anext(self._items)
        except StopAsyncIteration:
            return False, None

    def map(self, convert: Callable[[Any], Any]) -> ValueStream:
        """The same stream with each item converted."""

        async def items() -> AsyncGenerator[Any, None]:
            async for item in self._items:
                yield convert(item)

        return ValueStream(items(), self.aclose)

    async def aclose(self) -> None:
        """Stop: the far generator is closed. Does nothing the second time."""
        await self._items.aclose()
        await self._close()


class _Conversation:
    """One duplex call as this side sees it."""

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id = call_id
        self.name = name
        self.inbox = Inbox()
        self.desk: ReplyDesk | None = None
        self.is_over = False

    @property
    def reply_to(self) -> str:
        """The header that says where to deliver."""
        return "poll" if self.desk is None else self.desk.reply_to.header()

    def use(self, desk: ReplyDesk) -> None:
        """Have messages delivered there."""
        self.desk = desk
        desk.add(self.call_id, self.inbox)

    def leave(self) -> None:
        """Take no more deliveries."""
        self.is_over = True
        if self.desk is not None:
            self.desk.remove(self.call_id)


def new_call_id() -> str:
    """An id that no other call has, and that nobody can guess: who knows it may deliver a result."""
    return secrets.token_hex(16)
