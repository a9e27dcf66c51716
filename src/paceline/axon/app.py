"""A worker as a function from request to reply: no socket, no port, routes as data."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec

import paceline
from paceline.axon import wire
from paceline.axon.codings import Coding, coding_of
from paceline.axon.duplex import MAX_POLL_SECONDS, Bodies, CallTable
from paceline.axon.executors import Executor
from paceline.axon.listing import Listing, RemoteFailure
from paceline.axon.messages import Body, Reply, Request
from paceline.axon.registry import EXECUTORS, Registry, Rpc
from paceline.axon.transports.base import Transport
from paceline.axon.trust import refuse_stranger
from paceline.axon.wire import Kind, Limits
from paceline.errors import RemoteError, WireError


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
        self._executors: dict[str, Executor] = {name: make() for name, make in EXECUTORS.items()}
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
        return Reply.json(msgspec.to_builtins(Listing(self._device, paceline.__version__, wire.VERSION, rpcs)))

    async def _call(self, request: Request, name: str) -> Reply:
        coding = coding_of(request.headers.get("content-type"))
        call_id = request.headers.get("axon-call")
        reply_to = request.headers.get("axon-reply-to")
        if reply_to is not None and call_id is not None and self._calls.get(call_id) is not None:
            return self._confirm(call_id, request.peer, reply_to)  # a repeated request: the call runs already
        try:
            rpc = self._registry.find(name)
            args, kwargs = rpc.signature.bind(*coding.decode_call(request.content, self._limits))
        except KeyError as error:
            return Reply.refusal(404, f"{self._device} has {error.args[0]}")
        except WireError as error:
            return Reply.refusal(400, str(error))
        except TypeError as error:
            return Reply.refusal(422, str(error))
        if self._is_stopping:
            return Reply.refusal(503, f"{self._device} is stopping")
        if call_id is not None and self._calls.see(call_id):
            return Reply.refusal(409, f"call {call_id} was received before; it is not run twice")
        if reply_to is not None:
            bodies = self._bodies(rpc, args, kwargs, coding)
            return self._start_duplex(rpc, request, bodies, coding.content_type)
        headers = {"content-type": coding.content_type}
        if rpc.signature.published.is_stream:
            return Reply(200, headers, stream=_without_kinds(self._bodies(rpc, args, kwargs, coding)))
        kind, body = await self._run(rpc, args, kwargs, coding)
        return Reply(200 if kind is Kind.RESULT else 500, headers, body)

    def _start_duplex(self, rpc: Rpc, request: Request, bodies: Bodies, content_type: str) -> Reply:
        call_id = request.headers.get("axon-call")
        if call_id is None:
            return Reply.refusal(400, "a duplex call needs an id in the axon-call header")
        if self._calls.is_full():
            return Reply.refusal(503, f"too many duplex calls run on {self._device} or wait to be fetched")
        is_stream = rpc.signature.published.is_stream
        self._calls.start(call_id, bodies, content_type=content_type, is_stream=is_stream)
        return self._confirm(call_id, request.peer, request.headers["axon-reply-to"])

    def _confirm(self, call_id: str, peer: str, reply_to: str) -> Reply:
        call = self._calls.get(call_id)
        assert call is not None
        try:
            self._calls.deliver_to(call, peer, reply_to)
        except ValueError as error:
            self._calls.forget(call_id)
            return Reply.refusal(400, f"axon-reply-to: {error}")
        return Reply(202, {"axon-stream": str(int(call.is_stream))})

    async def _fetch(self, request: Request, call_id: str) -> Reply:
        call = self._calls.get(call_id)
        if call is None:
            return Reply.refusal(404, f"{self._device} does not know call {call_id}: it restarted, or the call is over")
        try:
            after = int(request.query.get("after", 0))
            wait_seconds = min(float(request.query.get("wait", 0)), MAX_POLL_SECONDS)
        except ValueError as error:
            return Reply.refusal(400, f"after and wait are numbers: {error}")
        message = await call.next_to_fetch(after, wait_seconds, is_pushed="pushed" in request.query)
        headers = {"axon-stream": str(int(call.is_stream))}
        if message is None:
            return Reply(204, headers)
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
            text = error.remote_traceback
            failure = RemoteFailure(error.type_name, error.remote_message, error.device, text)
        else:
            text = "".join(traceback.format_exception(error))
            failure = RemoteFailure(type(error).__name__, str(error), self._device, text)
        return coding.encode(Kind.ERROR, msgspec.to_builtins(failure), self._limits)


async def _without_kinds(bodies: Bodies) -> AsyncGenerator[Body, None]:
    async with contextlib.aclosing(bodies):
        async for _, body in bodies:
            yield body
