"""The asynchronous core of every client: one function call as a request and its reply."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from paceline.axon import loops, wire
from paceline.axon.access import bearer, check_token
from paceline.axon.messages import AXON_TYPE, Body, ItemStream, Reply, Request, Stream
from paceline.axon.retry import FIRST_PAUSE_SECONDS
from paceline.axon.signatures import RemoteFailure, WorkerDescription
from paceline.axon.transports.base import Address, Transport
from paceline.axon.wire import Kind, Limits
from paceline.errors import (
    BadReply,
    Busy,
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
_LONGEST_WAIT_SECONDS = 60.0
_LEAST_SECONDS = 1e-3  # for an attempt that begins in the last moment
_NO_WORKER = "answers, but not as Paceline does: check host and port"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How calls are made.

    Attributes:
        timeout_seconds: how long a call may take, all attempts included, or each item of a stream; None is two
            minutes, and a day for duplex calls.
        retry_seconds: for how long a simplex call is attempted again that does not get through, or whose answer is
            lost; 0 for a single attempt. For functions that may be called twice.
        once: whether such attempts share an id, so that the worker calls the function once, and answers the others
            as the first; only for short answers.
        duplex: False for one request per call. True for a call that is confirmed at once and whose result comes
            in a request of the worker's own, or by long-poll where the worker cannot reach this side.
        reachable: False if the worker need not try to reach this side: poll from the start.
        patience_seconds: how long a duplex call bears a worker that does not answer before it counts as lost.
        limits: what is accepted from the worker.
    """

    timeout_seconds: float | None = None
    retry_seconds: float = 0.0
    once: bool = False
    duplex: bool = False
    reachable: bool = True
    patience_seconds: float = 20.0
    limits: Limits = wire.DEFAULT_LIMITS

    def __post_init__(self) -> None:
        if self.timeout_seconds is not None and not self.timeout_seconds > 0:
            raise ConfigError(f"timeout_seconds is {self.timeout_seconds}; it must be above 0")

    @property
    def deadline_seconds(self) -> float:
        """Timeout, or its default."""
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
        self.authorization = bearer(token)

    @property
    def may_pause(self) -> bool:
        """Whether a call needs its event loop only while someone waits for it, so that a blocked thread can run it."""
        return not self.options.duplex and self.transport.is_free_of_loops

    def with_options(self, **changes: Any) -> Caller:
        """Return a caller of the same worker with other options."""
        caller = copy.copy(self)
        caller.options = replace(self.options, **changes)
        return caller

    def until(self, at: float) -> Caller:
        """Return a caller whose next call ends by this loop time; itself, if it has nearly all of its time."""
        left = at - asyncio.get_running_loop().time()
        if left > self.options.deadline_seconds - FIRST_PAUSE_SECONDS:
            return self
        return self.with_options(timeout_seconds=max(left, _LEAST_SECONDS))

    async def call(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, call_id: str | None = None
    ) -> Any:
        """Call the function and return its result, or a `ValueStream` if it is a generator.

        Give a `call_id` to repeat the call or to reattach to it: for one id, the function never runs to its end twice.
        """
        body = wire.encode(Kind.CALL, [list(args), dict(kwargs)], self.options.limits)
        headers = {"content-type": AXON_TYPE, **self.authorization}
        request = Request("POST", f"/rpc/{name}", {}, headers, body)
        if self.options.duplex:
            from paceline.axon.duplex.caller import DuplexCall

            return await DuplexCall(self, name, call_id or new_call_id()).start(request)
        if call_id is not None:  # sent once, a call needs no id unless its caller wants to repeat it
            headers["axon-call"] = call_id
        reply = await self._send(request)
        try:
            self.check(reply)
        except TransportError:
            if reply.stream is not None:
                await reply.stream.aclose()
            raise
        if reply.stream is None:
            return self.result(reply.body)
        return ValueStream(self.items(reply.stream, name), reply.stream.aclose)

    async def reattach(self, call_id: str) -> Any:
        """Return the result (or what is left of the stream) of a duplex call, whoever started it."""
        from paceline.axon.duplex.caller import DuplexCall

        return await DuplexCall(self, f"call {call_id}", call_id).reattach()

    async def describe_worker(self) -> WorkerDescription:
        """Ask the worker which functions it offers."""
        reply = await self._send(Request("GET", "/", {}, self.authorization))
        self.check(reply)
        try:
            return msgspec.json.decode(reply.content, type=WorkerDescription)
        except msgspec.MsgspecError as error:
            raise BadReply(f"{self.address} {_NO_WORKER}") from error

    async def _send(self, request: Request) -> Reply:
        return await self.transport.request(self.address, request, timeout=self.options.deadline_seconds)

    # Replies, of simplex and duplex calls alike.

    async def in_time(self, awaitable: Awaitable[T], name: str) -> T:
        """Await part of an answer for as long as the options allow."""
        try:
            return await loops.within(self.options.deadline_seconds, awaitable)
        except asyncio.TimeoutError:
            seconds = self.options.deadline_seconds
            raise TimedOut(f"{self.address} did not answer {name} within {seconds:g} s") from None

    async def items(self, bodies: AsyncGenerator[Body, None] | Stream, name: str) -> AsyncGenerator[Any, None]:
        """Decode the items of a stream as they come, up to its last frame."""
        async with contextlib.aclosing(bodies):
            while True:
                try:
                    body = await self.in_time(anext(bodies), name)
                except StopAsyncIteration:
                    raise ConnectionLost(f"{self.address} ended the stream of {name} halfway") from None
                kind, value = self._decode(body)
                if kind is not Kind.ITEM:
                    self._result_of(kind, value)
                    return
                yield value

    def check(self, reply: Reply, expected: int = 200) -> None:
        """Raise for a refusal; an error of the far function passes, it is a frame like a result."""
        if reply.status == expected or reply.headers.get("content-type") == AXON_TYPE:
            return
        try:
            message = json.loads(bytes(reply.content))["error"]
        except (ValueError, KeyError, TypeError):
            raise BadReply(f"{self.address} {_NO_WORKER} (status {reply.status})") from None
        if reply.status == 401:
            problem = "the token is wrong" if self.authorization else "a token is needed"
            message = f"{problem}; pass the one that it was started with (--token, or PACELINE_TOKEN)"
        if "retry-after" in reply.headers:
            seconds = _retry_after_seconds(reply)
            raise Busy(f"{self.address}: {message}", status=reply.status, retry_after_seconds=seconds)
        raise Refused(f"{self.address}: {message}", status=reply.status)

    def result(self, body: Body) -> Any:
        """Decode a result, or raise the error that the far function raised."""
        return self._result_of(*self._decode(body))

    def _decode(self, body: Body) -> tuple[Kind, Any]:
        try:
            return wire.decode(memoryview(body[0]) if body else memoryview(b""), self.options.limits)
        except WireError as error:
            raise BadReply(f"{self.address}: {error}") from error

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


class ValueStream(ItemStream[Any]):
    """The items of a generator as they come, for ``async for``. Closing it early stops the far generator."""

    async def take(self) -> tuple[bool, Any]:
        """Return True and the next item, or False at the end: what can be passed to another thread."""
        try:
            return True, await anext(self._items)
        except StopAsyncIteration:
            return False, None

    def map(self, convert: Callable[[Any], Any]) -> ValueStream:
        """Return the same stream with each item converted."""

        async def items() -> AsyncGenerator[Any, None]:
            async for item in self._items:
                yield convert(item)

        return ValueStream(items(), self.aclose)


def _retry_after_seconds(reply: Reply) -> float:
    """Read how long a worker wants to be left alone; not for long, whatever it says."""
    text = reply.headers.get("retry-after", "")
    return min(float(text), _LONGEST_WAIT_SECONDS) if re.fullmatch("[0-9]{1,9}", text) else 0.0


def new_call_id() -> str:
    """Make an id that no other call has, and that nobody can guess: who knows it may deliver a result."""
    return secrets.token_hex(16)
