"""Serves an App over HTTP/1.1: one task per request, one connection at a time per client call."""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

import httptools

from paceline.axon.messages import Reply, Request, num_bytes
from paceline.axon.tls import ClientTrust, ServerIdentity
from paceline.axon.transports.base import Address, App, Listener, answer
from paceline.axon.transports.http.protocol import Head, HttpProtocol, ProtocolError, content_length
from paceline.errors import ConfigError

MAX_CONNECTIONS = 1024
MAX_PENDING_BYTES = 8 << 30  # of bodies under way, all clients together
IDLE_SECONDS = 120.0  # a kept-alive connection without a request
STALL_SECONDS = 30.0  # a request or reply that makes no progress
HANDSHAKE_SECONDS = 10.0
LINGER_SECONDS = 2.0  # reading on after a refusal, so that the client gets to see it

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
        trust = ClientTrust(identity.fingerprint) if identity else None
        self.address = Address(host, port, trust)
        try:
            self._server = await loop.create_server(
                lambda: ServerConnection(self),
                host,
                port,
                ssl=identity.context if identity else None,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if identity else None,
            )
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', error)}") from error
        self.address = Address(host, self._server.sockets[0].getsockname()[1], trust)
        self._sweeper = loop.create_task(self._sweep())

    async def close(self) -> None:
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

    def drop_idlest(self) -> bool:
        """Make room for a connection by closing the one that has been idle longest; False if all are in use."""
        idle = [connection for connection in self.connections if connection.is_idle]
        if not idle:
            return False
        idlest = min(idle, key=lambda connection: connection.last_activity)
        self.connections.discard(idlest)
        idlest.abort()
        return True

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
        self._head_since = 0.0  # loop time at which an unfinished head was first seen
        self._is_streaming = False
        self._num_pending_bytes = 0
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._listener.connections) >= MAX_CONNECTIONS and not self._listener.drop_idlest():
            self.abort()
            return
        self._listener.connections.add(self)
        name = transport.get_extra_info("peername")
        self._peer = name[0] if name else ""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._listener.connections.discard(self)
        self._release()
        if self.task is not None:
            self.task.cancel()

    def head_received(self, head: bytes) -> int:
        fields = Head(httptools.HttpRequestParser, head)
        self._keep_alive = fields.keep_alive
        path, _, query = fields.target.decode("latin-1").partition("?")
        self._is_head_request = fields.parser.get_method() == b"HEAD"
        self._request = Request(
            fields.parser.get_method().decode("latin-1"),
            unquote(path) if "%" in path else path,
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
                self.task = self.loop.create_task(self._send_reply(refusal))
            return 0
        if "expect" in fields.headers and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return length

    def body_grew(self, num_bytes: int) -> None:
        self._num_pending_bytes += num_bytes
        self._listener.num_pending_bytes += num_bytes
        if self._listener.num_pending_bytes > MAX_PENDING_BYTES:
            raise ProtocolError("too many bytes of other requests are under way; try again later", 503)

    def _release(self) -> None:
        self._listener.num_pending_bytes -= self._num_pending_bytes
        self._num_pending_bytes = 0

    def body_received(self, body: memoryview) -> None:
        if self.task is not None:
            return  # refused already
        assert self._request is not None
        self._request.body = [body]
        self.task = self.loop.create_task(self._respond(self._request))
        self._request = None

    def fail(self, error: Exception) -> None:
        status = error.status if isinstance(error, ProtocolError) else 400
        self._release()
        self._refuse_unread(Reply.refusal(status, str(error)))

    async def _respond(self, request: Request) -> None:
        try:
            reply = await answer(self._app, request)
        except asyncio.CancelledError:
            self.abort()  # should the peer still be there, it learns that there will be no answer
            raise
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
        self._is_streaming = True
        async with contextlib.aclosing(reply.stream) as chunks:
            await self.send(self._head(reply, "Transfer-Encoding: chunked"))
            try:
                async for chunk in chunks:
                    if self.is_closed:
                        return
                    await self.send(b"%x\r\n" % num_bytes(chunk), [*chunk, b"\r\n"])
            except asyncio.CancelledError:
                self.abort()
                raise
        await self.send(b"0\r\n\r\n")
        self._is_streaming = False

    def _head(self, reply: Reply, framing: str) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        connection = "" if self._keep_alive else "Connection: close\r\n"
        return f"{_REASONS[reply.status]}{lines}{connection}{framing}\r\n\r\n".encode("latin-1")

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

    @property
    def is_idle(self) -> bool:
        """Whether no request is being received, handled or answered; a head that is not whole does not count as one."""
        return self.task is None and self._target is None and not self.num_unsent_bytes

    def close_if_stale(self, now: float) -> None:
        """Abort a connection whose peer went silent in mid-message, sends a head byte by byte, or idles for long."""
        num_unsent = self.num_unsent_bytes
        if num_unsent and num_unsent != self._num_unsent_before:
            self.last_activity = now
        self._num_unsent_before = num_unsent
        if self._is_streaming or (self.task is not None and not num_unsent):
            return  # a consumer may be slow to ask for the next item, a function may take long
        if self.is_idle and self._filled:  # a head has begun; it must be whole in time, however it trickles
            self._head_since = self._head_since or now
            if now - self._head_since > STALL_SECONDS:
                self.abort()
            return
        self._head_since = 0.0
        if now - self.last_activity > (IDLE_SECONDS if self.is_idle else STALL_SECONDS):
            self.abort()
