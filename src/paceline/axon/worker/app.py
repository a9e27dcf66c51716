"""A worker as a function from request to reply: no socket, no port, routes as data."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

import paceline
from paceline.axon import wire
from paceline.axon.client.replies import ReplyTo
from paceline.axon.listing import Listing, RemoteFailure
from paceline.axon.messages import Body, Reply, Request, Stream, num_bytes
from paceline.axon.transports.base import Transport
from paceline.axon.trust import refuse_stranger
from paceline.axon.wire import Kind, Limits
from paceline.axon.wire.codings import Coding, coding_of
from paceline.axon.worker.duplex import MAX_POLL_SECONDS, Bodies, CallTable
from paceline.axon.worker.executors import Executor
from paceline.axon.worker.registry import EXECUTORS, Registry, Rpc
from paceline.errors import RemoteError, WireError

_MAX_ID_LENGTH = 128
_ANNOUNCED_BYTES = 1 << 18  # a long-poll for a larger message tells its size, so that the caller plans for it
_MAX_ERROR_LENGTH = 1 << 16


class WorkerApp:
    """Serves a registry's functions.

    Args:
        device: the name told in listings and errors.
        token: what callers must show, or None.
        transport: carries the results of duplex calls back to their callers.
    """

    def __init__(
        self, registry: Registry, device: str, token: str | None, transport: Transport, limits: Limits
    ) -> None:
        self._registry = registry
        self._device = device
        self._token = token
        self._limits = limits
        self._calls = CallTable(transport)
        self._executors: dict[str, Executor] = {name: make(device) for name, make in EXECUTORS.items()}
        self._listed: Reply | None = None
        self._num_listed = 0
        self._num_running = 0
        self._is_stopping = False

    # The two methods of an App.

    def admit(self, head: Request, num_body_bytes: int) -> Reply | None:
        """Refuse strangers and what is too large before it is read."""
        if num_body_bytes > self._limits.max_body_bytes:
            return Reply.refusal(413, f"{num_body_bytes} bytes; {self._device} takes {self._limits.max_body_bytes}")
        return refuse_stranger(head.headers, self._token)

    async def handle(self, request: Request) -> Reply:
        """Answer one request."""
        for method, prefix, answer in self._ROUTES:
            is_here = request.path == prefix if prefix == "/" else request.path.startswith(prefix)
            if is_here and request.method == method:
                return await answer(self, request, request.path[len(prefix) :])
        known = ", ".join(f"{method} {prefix}" for method, prefix, _ in self._ROUTES)
        return Reply.refusal(404, f"no {request.method} {request.path} here; there is {known}")

    async def close(self, grace_seconds: float) -> None:
        """Take no more calls, wait so long for those under way, then cancel them."""
        self._is_stopping = True
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_seconds
        while (self._num_running or self._calls.num_open) and loop.time() < until:
            await asyncio.sleep(0.02)
        await self._calls.close()

    async def close_executors(self) -> None:
        """Release threads and processes, once no call runs any more."""
        for executor in self._executors.values():
            await executor.close()

    # Routes.

    async def _list(self, request: Request, _: str) -> Reply:
        rpcs = [rpc.signature.published for rpc in self._registry]
        if self._listed is None or len(rpcs) != self._num_listed:  # functions are only ever added
            listing = Listing(self._device, paceline.__version__, wire.VERSION, rpcs)
            self._listed, self._num_listed = Reply.json(msgspec.to_builtins(listing)), len(rpcs)
        return Reply(self._listed.status, self._listed.headers, self._listed.body)

    async def _call(self, request: Request, name: str) -> Reply:
        coding = coding_of(request.headers.get("content-type"))
        try:
            rpc = self._registry.find(name)
            caller = _CallerHeaders.parse(request)
            is_known_stream = self._calls.find_stream(caller.call_id) if caller.is_duplex else None
            if is_known_stream is not None:
                return self._confirm(caller, is_stream=is_known_stream)  # a repeated request: it runs, or has run
            args, kwargs = rpc.signature.bind(*coding.decode_call(request.content, self._limits))
        except KeyError as error:
            return Reply.refusal(404, f"{self._device} has {error.args[0]}")
        except (WireError, ValueError) as error:
            return Reply.refusal(400, str(error))
        except TypeError as error:
            return Reply.refusal(422, str(error))
        if self._is_stopping or (caller.is_duplex and self._calls.is_full()):
            return Reply.refusal(503, f"{self._device} is {'stopping' if self._is_stopping else 'full of calls'}")
        if caller.call_id and not caller.is_duplex and self._calls.see(caller.call_id):
            return Reply.refusal(409, f"call {caller.call_id} was received before; it is not run twice")
        is_stream, headers = rpc.signature.published.is_stream, {"content-type": coding.content_type}
        if caller.is_duplex:
            bodies = self._bodies(rpc, args, kwargs, coding)
            self._calls.start(caller.call_id, bodies, content_type=coding.content_type, is_stream=is_stream)
            return self._confirm(caller, is_stream=is_stream)
        if is_stream:
            return Reply(200, headers, stream=Stream(_without_kinds(self._bodies(rpc, args, kwargs, coding))))
        kind, body = await self._run(rpc, args, kwargs, coding)
        return Reply(200 if kind is Kind.RESULT else 500, headers, body)

    def _confirm(self, caller: _CallerHeaders, *, is_stream: bool) -> Reply:
        call = self._calls.get(caller.call_id)
        if call is not None:
            self._calls.deliver_to(call, caller.reply_to, caller.peer)
        return Reply(202, {"axon-stream": str(int(is_stream))})

    async def _fetch(self, request: Request, call_id: str) -> Reply:
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

    async def _forget(self, request: Request, call_id: str) -> Reply:
        self._calls.forget(call_id)
        return Reply(204)

    _ROUTES: tuple[tuple[str, str, Callable[[WorkerApp, Request, str], Awaitable[Reply]]], ...] = (
        ("POST", "/rpc/", _call),
        ("GET", "/", _list),
        ("GET", "/calls/", _fetch),
        ("DELETE", "/calls/", _forget),
    )

    # Running functions.

    async def _run(self, rpc: Rpc, args: Any, kwargs: Any, coding: Coding) -> tuple[Kind, Body]:
        self._num_running += 1
        try:
            value = await self._executors[rpc.executor].run(rpc.function, args, kwargs)
            return Kind.RESULT, coding.encode(Kind.RESULT, value, self._limits)
        except (Exception, SystemExit) as error:
            return Kind.ERROR, self._failure(error, coding)
        finally:
            self._num_running -= 1

    async def _bodies(self, rpc: Rpc, args: Any, kwargs: Any, coding: Coding) -> Bodies:
        if not rpc.signature.published.is_stream:
            yield await self._run(rpc, args, kwargs, coding)
            return
        self._num_running += 1
        try:
            items = self._executors[rpc.executor].stream(rpc.function, args, kwargs)
            async with contextlib.aclosing(items):
                async for item in items:
                    yield Kind.ITEM, coding.encode(Kind.ITEM, item, self._limits)
        except (Exception, SystemExit) as error:
            yield Kind.ERROR, self._failure(error, coding)
        else:
            yield Kind.RESULT, coding.encode(Kind.RESULT, None, self._limits)
        finally:
            self._num_running -= 1

    def _failure(self, error: BaseException, coding: Coding) -> Body:
        if isinstance(error, RemoteError):  # raised in a child process, or further on: told as it was there
            told = (error.type_name, error.remote_message, error.device, error.remote_traceback)
        else:
            told = (type(error).__name__, str(error), self._device, "".join(traceback.format_exception(error)))
        failure = RemoteFailure(*map(_sendable, told))
        return coding.encode(Kind.ERROR, msgspec.to_builtins(failure), self._limits)


class _CallerHeaders(NamedTuple):
    """What a request says about the call besides its arguments."""

    call_id: str
    is_duplex: bool
    reply_to: ReplyTo | None
    peer: str

    @classmethod
    def parse(cls, request: Request) -> _CallerHeaders:
        """Read the headers; raises `ValueError`."""
        call_id, reply_to = request.headers.get("axon-call", ""), request.headers.get("axon-reply-to")
        if len(call_id) > _MAX_ID_LENGTH:
            raise ValueError(f"axon-call: an id has at most {_MAX_ID_LENGTH} characters")
        if reply_to is None:
            return cls(call_id, False, None, request.peer)
        if not call_id:
            raise ValueError("axon-call: a duplex call needs an id")
        try:
            return cls(call_id, True, ReplyTo.parse(reply_to), request.peer)
        except ValueError as error:
            raise ValueError(f"axon-reply-to: {error}") from None


def _sendable(text: str) -> str:
    """Text as it can be sent: file names may hold half characters, and some errors quote megabytes."""
    if len(text) > _MAX_ERROR_LENGTH:
        half = _MAX_ERROR_LENGTH // 2
        text = f"{text[:half]} … {text[-half:]}"
    return text.encode(errors="replace").decode()


async def _without_kinds(bodies: Bodies) -> AsyncGenerator[Body, None]:
    async with contextlib.aclosing(bodies):
        async for _, body in bodies:
            yield body
