"""Serves an App over HTTP/1.1: one task per request, one connection at a time per client call."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

import httptools

from paceline.axon.messages import Reply, Request, num_bytes
from paceline.axon.tls import ServerIdentity
from paceline.axon.transports.base import Address, App, Listener
from paceline.axon.transports.http.protocol import Head, HttpProtocol, ProtocolError, content_length
from paceline.errors import ConfigError

MAX_CONNECTIONS = 1024
MAX_PENDING_BYTES = 8 << 30  # of bodies under way, all clients together
IDLE_SECONDS = 120.0  # a kept-alive connection without a request
STALL_SECONDS = 30.0  # a request or reply that makes no progress
LINGER_SECONDS = 2.0  # reading on after a refusal, so that the client gets to see it

_log = logging.getLogger(__name__)
_REASONS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


class HttpListener(Listener):
    """A listening socket and the connections that came through it."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.connections: set[ServerConnection] = set()
        self.num_pending_bytes = 0  # of bodies that are being received or handled
        self._server: asyncio.AbstractServer | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, identity: ServerIdentity | None) -> None:
        """Bind and serve."""
        loop = asyncio.get_running_loop()
        context = identity.context if identity else None
        try:
            self._server = await loop.create_server(lambda: ServerConnection(self), host, port, ssl=context)
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        self.address = Address(host, self._server.sockets[0].getsockname()[1])
        self._sweeper = loop.create_task(self._sweep())

    async def close(self) -> None:
        """Stop accepting, cancel requests under way, drop the connections."""
        assert self._server is not None and self._sweeper is not None
        self._server.close()
        self._sweeper.cancel()
        tasks = [connection.task for connection in self.connections if connection.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._sweeper, return_exceptions=True)
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)
        await self._server.wait_closed()

    async def _sweep(self) -> None:
        """Close connections that idle too long or stall; one timer for all of them."""
        while True:
            await asyncio.sleep(1.0)
            now = asyncio.get_running_loop().time()
            for connection in list(self.connections):
                connection.close_if_stale(now)


class ServerConnection(HttpProtocol):
    """One client's connection."""

    def __init__(self, listener: HttpListener) -> None:
        super().__init__()
        self._listener = listener
        self._app = listener.app
        self._request: Request | None = None
        self._keep_alive = True
        self._is_head_request = False
        self._peer = ""
        self._num_unsent_before = 0
        self._num_pending_bytes = 0
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        super().connection_made(transport)
        if len(self._listener.connections) >= MAX_CONNECTIONS:
            self.abort()
            return
        self._listener.connections.add(self)
        name = transport.get_extra_info("peername")
        self._peer = name[0] if name else ""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        super().connection_lost(exc)
        self._listener.connections.discard(self)
        self._release()
        if self.task is not None:
            self.task.cancel()

    def head_received(self, head: bytes) -> int:  # noqa: D102
        fields = Head(httptools.HttpRequestParser, head)
        self._keep_alive = fields.keep_alive
        path, _, query = fields.target.decode("latin-1").partition("?")
        self._is_head_request = fields.parser.get_method() == b"HEAD"
        self._request = Request(
            fields.parser.get_method().decode("latin-1"),
            unquote(path),
            dict(parse_qsl(query)) if query else {},
            fields.headers,
            peer=self._peer,
        )
        if "transfer-encoding" in fields.headers:
            raise ProtocolError("send the body with a Content-Length", 411)
        length = content_length(fields.headers)
        refusal = self._app.admit(self._request, length)
        if refusal is not None:
            if length:
                self._refuse_unread(refusal)
            else:
                self._respond_with(refusal)
            return 0
        if "expect" in fields.headers and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return length

    def body_grew(self, num_bytes: int) -> None:  # noqa: D102
        self._num_pending_bytes += num_bytes
        self._listener.num_pending_bytes += num_bytes
        if self._listener.num_pending_bytes > MAX_PENDING_BYTES:
            raise ProtocolError("too many bytes of other requests are under way; try again later", 503)

    def _release(self) -> None:
        self._listener.num_pending_bytes -= self._num_pending_bytes
        self._num_pending_bytes = 0

    def body_received(self, body: memoryview) -> None:  # noqa: D102
        if self.task is not None:
            return  # refused already
        assert self._request is not None
        self._request.body = [body]
        self.task = self.loop.create_task(self._respond(self._request))
        self._request = None

    def fail(self, error: Exception) -> None:  # noqa: D102
        status = error.status if isinstance(error, ProtocolError) else 400
        self._release()
        self._refuse_unread(Reply.refusal(status, str(error)))

    async def _respond(self, request: Request) -> None:
        try:
            reply = await self._app.handle(request)
        except Exception:
            _log.exception("the handler of %s %s raised", request.method, request.path)
            reply = Reply.refusal(500, "the worker failed to answer; its log says why")
        del request  # a large body is not kept while the reply is sent
        self._release()
        await self._send_reply(reply)

    async def _send_reply(self, reply: Reply) -> None:
        try:
            if reply.stream is None:
                head = self._head(reply, f"Content-Length: {num_bytes(reply.body)}")
                await self.send(head, () if self._is_head_request else reply.body)
            else:
                await self._send_stream(reply)
        finally:
            self.task = None
        if self._keep_alive and not self.is_closed:
            self.next_message()
        else:
            self.close()

    async def _send_stream(self, reply: Reply) -> None:
        assert reply.stream is not None
        async with contextlib.aclosing(reply.stream) as chunks:
            await self.send(self._head(reply, "Transfer-Encoding: chunked"))
            async for chunk in chunks:
                if self.is_closed:
                    return
                await self.send(b"%x\r\n" % num_bytes(chunk), [*chunk, b"\r\n"])
        await self.send(b"0\r\n\r\n")

    def _head(self, reply: Reply, framing: str) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        connection = "" if self._keep_alive else "Connection: close\r\n"
        return f"{_REASONS[reply.status]}{lines}{connection}{framing}\r\n\r\n".encode("latin-1")

    def _respond_with(self, reply: Reply) -> None:
        self.task = self.loop.create_task(self._send_reply(reply))

    def _refuse_unread(self, reply: Reply) -> None:
        """Answer though the request was not read to its end; then the connection cannot be used again."""
        self._keep_alive = False
        self.discard_input()
        self.task = self.loop.create_task(self._linger(reply))

    async def _linger(self, reply: Reply) -> None:
        try:
            await self.send(self._head(reply, f"Content-Length: {num_bytes(reply.body)}"), reply.body)
            if self._transport is not None and self._transport.can_write_eof():
                with contextlib.suppress(OSError):  # the peer has reset the connection just now
                    self._transport.write_eof()
            await asyncio.sleep(LINGER_SECONDS)
        finally:
            self.task = None
            self.close()

    def close_if_stale(self, now: float) -> None:
        """Abort a connection whose peer went silent in mid-message, or that idles for long."""
        num_unsent = self.num_unsent_bytes
        if num_unsent and num_unsent != self._num_unsent_before:
            self.last_activity = now
        self._num_unsent_before = num_unsent
        silent_seconds = now - self.last_activity
        is_handling = self.task is not None and not num_unsent
        if is_handling:
            return
        is_idle = self._target is None and not self._filled and not num_unsent
        if silent_seconds > (IDLE_SECONDS if is_idle else STALL_SECONDS):
            self.abort()
