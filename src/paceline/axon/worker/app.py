"""A worker as a function from request to reply: no socket, no port, routes as data."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

import paceline
from paceline.axon import wire
from paceline.axon.access import Access, Caller, caller
from paceline.axon.host_names import HostNames
from paceline.axon.messages import Body, Reply, Request, Stream, num_bytes
from paceline.axon.signatures import RemoteFailure, WorkerDescription
from paceline.axon.transports.base import Transport
from paceline.axon.wire import Kind, Limits
from paceline.axon.wire.codings import Bodies, Coding, coding_of
from paceline.axon.worker.executors import Executor
from paceline.axon.worker.given import GivenReplies
from paceline.axon.worker.monitoring import HEALTH_PATH, METRICS_PATH, Monitoring, RunningCall
from paceline.axon.worker.registry import Registry, Rpc, executor_type
from paceline.axon.worker.turns import Turns
from paceline.errors import RemoteError, WireError

if TYPE_CHECKING:
    from paceline.axon.duplex.server import DuplexServer

_MAX_ID_LENGTH = 128
_MAX_ERROR_LENGTH = 1 << 16


class WorkerApp:
    """Serves a registry's functions; `transport` carries the results of duplex calls back to their callers."""

    def __init__(
        self,
        registry: Registry,
        device: str,
        access: Access,
        transport: Transport,
        limits: Limits,
        names: HostNames,
        monitoring: Monitoring,
    ) -> None:
        self._monitoring = monitoring
        self._registry, self._device, self._access, self._names = registry, device, access, names
        self._transport, self._limits = transport, limits
        self._given = GivenReplies()
        self._turns = Turns()
        self._duplex_server: DuplexServer | None = None
        self._executors: dict[str, Executor] = {}
        self._description: Reply | None = None
        self._num_described = 0
        self._num_running = 0
        self._is_stopping = False

    # The two methods of an App.

    def admit(self, head: Request, num_body_bytes: int) -> Reply | None:
        if head.path == HEALTH_PATH:  # answered at the door: it makes nobody known, and is open to all
            return self._monitoring.health(is_stopping=self._is_stopping)
        refusal = self._refuse(head, num_body_bytes)
        if refusal is not None:
            self._monitoring.refused[refusal.status] += 1
        return refusal

    def _refuse(self, head: Request, num_body_bytes: int) -> Reply | None:
        refusal = self._access.refuse(head)
        if refusal is None and self._access.is_open:  # a web page has no token, so whoever has one is none
            refusal = self._names.refuse(head.headers)
        if refusal is None and num_body_bytes > self._limits.max_body_bytes:
            return Reply.refusal(413, f"{num_body_bytes} bytes; {self._device} takes {self._limits.max_body_bytes}")
        return refusal

    async def handle(self, request: Request) -> Reply:
        reply = await self._answer(request)
        monitoring = self._monitoring
        monitoring.num_body_bytes[0] += len(request.content)
        monitoring.num_body_bytes[1] += num_bytes(reply.body)
        if reply.status >= 400 and reply.status != 500:  # a function that raised was run
            monitoring.refused[reply.status] += 1
        return reply

    async def _answer(self, request: Request) -> Reply:
        caller.set(Caller.of(request))
        for method, prefix, answer in self._ROUTES:
            is_whole = prefix == "/" or not prefix.endswith("/")
            is_here = request.path == prefix if is_whole else request.path.startswith(prefix)
            if is_here and request.method == method:
                return await answer(self, request, request.path[len(prefix) :])
        known = ", ".join(f"{method} {prefix}" for method, prefix, _ in self._ROUTES)
        return Reply.refusal(404, f"no {request.method} {request.path} here; there is {known}")

    async def close(self, grace_seconds: float) -> None:
        """Take no more calls, wait so long for those under way, then cancel them."""
        self._is_stopping = True
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_seconds
        duplex = self._duplex_server
        while (self._num_running or (duplex is not None and duplex.num_open)) and loop.time() < until:
            await asyncio.sleep(0.02)
        if duplex is not None:
            await duplex.close()

    async def close_executors(self) -> None:
        """Release threads and processes, once no call runs any more."""
        for executor in self._executors.values():
            await executor.close()

    # Routes.

    async def _metrics(self, request: Request, _: str) -> Reply:
        return self._monitoring.metrics()

    async def _describe(self, request: Request, _: str) -> Reply:
        rpcs = [rpc.signature.published for rpc in self._registry]
        if self._description is None or len(rpcs) != self._num_described:  # functions are only ever added
            description = WorkerDescription(self._device, paceline.__version__, wire.VERSION, rpcs)
            self._description, self._num_described = Reply.json(msgspec.to_builtins(description)), len(rpcs)
        return Reply(self._description.status, self._description.headers, self._description.body)

    async def _call(self, request: Request, name: str) -> Reply:
        coding = coding_of(request.headers.get("content-type"))
        call_id, is_duplex = request.headers.get("axon-call", ""), "axon-reply-to" in request.headers
        try:
            rpc = self._registry.find(name)
            if (turn := self._turns.take(name)) is not None:
                await turn
            if len(call_id) > _MAX_ID_LENGTH:
                raise ValueError(f"axon-call: an id has at most {_MAX_ID_LENGTH} characters")
            if is_duplex and (confirmed := self._duplex.confirm_known(request, call_id)) is not None:
                return confirmed
            args, kwargs = rpc.signature.bind(*coding.decode_call(request.content, self._limits))
        except KeyError as error:
            return Reply.refusal(404, f"{self._device} has {error.args[0]}")
        except (WireError, ValueError) as error:
            return Reply.refusal(400, str(error))
        except TypeError as error:
            return Reply.refusal(422, str(error))
        if self._is_stopping:
            return Reply.refusal(503, f"{self._device} is stopping")
        is_stream, content_type = rpc.signature.published.is_stream, coding.content_type
        if is_duplex:
            bodies = self._bodies(rpc, args, kwargs, coding)
            return self._duplex.start(request, call_id, bodies, content_type=content_type, is_stream=is_stream)
        if call_id and self._is_known(call_id):
            return self._given.again(call_id) or Reply.refusal(
                409, f"call {call_id} was received before; it is not run twice"
            )
        headers = {"content-type": content_type}
        if is_stream:
            return Reply(200, headers, stream=Stream(_without_kinds(self._bodies(rpc, args, kwargs, coding))))
        try:
            kind, body = await self._run(rpc, args, kwargs, coding)
        except asyncio.CancelledError:
            self._given.forget(call_id)
            raise
        reply = Reply(200 if kind is Kind.RESULT else 500, headers, body)
        if call_id:
            self._given.keep(call_id, reply)
        return reply

    def _is_known(self, call_id: str) -> bool:
        """Note the id of a simplex call; True if it was received before, so that the call must not be run again."""
        return not self._given.note(call_id) or (self._duplex_server is not None and self._duplex_server.knows(call_id))

    async def _fetch(self, request: Request, call_id: str) -> Reply:
        return await self._duplex.fetch(request, call_id)

    async def _forget(self, request: Request, call_id: str) -> Reply:
        self._duplex.forget(call_id)
        return Reply(204)

    _ROUTES: tuple[tuple[str, str, Callable[[WorkerApp, Request, str], Awaitable[Reply]]], ...] = (
        ("POST", "/rpc/", _call),
        ("GET", "/", _describe),
        ("GET", METRICS_PATH, _metrics),
        ("GET", "/calls/", _fetch),
        ("DELETE", "/calls/", _forget),
    )

    @property
    def _duplex(self) -> DuplexServer:
        """Server of duplex calls, loaded with the first of them."""
        if self._duplex_server is None:
            from paceline.axon.duplex.server import DuplexServer

            self._duplex_server = DuplexServer(self._transport, self._device)
        return self._duplex_server

    # Running functions.

    def _executor(self, rpc: Rpc) -> Executor:
        executor = self._executors.get(rpc.executor)
        if executor is None:
            executor = self._executors[rpc.executor] = executor_type(rpc.executor)(self._device)
        return executor

    async def _run(self, rpc: Rpc, args: Any, kwargs: Any, coding: Coding) -> tuple[Kind, Body]:
        self._num_running += 1
        try:
            with RunningCall(self._monitoring, rpc.name):
                value = await self._executor(rpc).run(rpc.function, args, kwargs)
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
            with RunningCall(self._monitoring, rpc.name):
                items = self._executor(rpc).stream(rpc.function, args, kwargs)
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
        if isinstance(error, RemoteError):  # raised in a child process, or further on: reported as it was there
            fields = (error.type_name, error.remote_message, error.device, error.remote_traceback)
        else:
            fields = (type(error).__name__, str(error), self._device, "".join(traceback.format_exception(error)))
        failure = RemoteFailure(*map(_sendable, fields))
        return coding.encode(Kind.ERROR, msgspec.to_builtins(failure), self._limits)


def _sendable(text: str) -> str:
    """Make text fit to be sent: file names may hold half characters, and some errors quote megabytes."""
    if len(text) > _MAX_ERROR_LENGTH:
        half = _MAX_ERROR_LENGTH // 2
        text = f"{text[:half]} … {text[-half:]}"
    return text.encode(errors="replace").decode()


async def _without_kinds(bodies: Bodies) -> AsyncGenerator[Body, None]:
    async with contextlib.aclosing(bodies):
        async for _, body in bodies:
            yield body
