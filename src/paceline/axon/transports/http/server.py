"""One client's connection: requests to an App over HTTP/1.1, one at a time, and what becomes of bad ones."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

import httptools

from paceline.axon.messages import Reply, Request, num_bytes
from paceline.axon.transports.base import answer
from paceline.axon.transports.http.crowd import network_of
from paceline.axon.transports.http.protocol import Head, HttpProtocol, ProtocolError, content_length

if TYPE_CHECKING:
    from paceline.axon.transports.http.listener import HttpListener

MAX_PENDING_BYTES = 8 << 30  # of bodies under way, all clients together
IDLE_SECONDS = 120.0  # a kept-alive connection without a request
STALL_SECONDS = 30.0  # a request or reply that makes no progress
STRANGER_SECONDS = 15.0  # for a first request that is let in, from the handshake on
LINGER_SECONDS = 2.0  # reading on after a refusal, so that the client gets to see it
RETRY_AFTER_SECONDS = 5

_REASONS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_TOO_MANY = Reply.refusal(429, "too many requests from this address were refused; try again later", RETRY_AFTER_SECONDS)


class ServerConnection(HttpProtocol):
    """A connection from the moment it was accepted; see `Crowd` for who is a stranger.

    Attributes:
        opening: the TLS handshake, or what there is of it.
        task: answers the request under way.
        turned_away: why no request is taken at all; empty if they are.
    """

    def __init__(self, listener: HttpListener, accepted: socket.socket, host: str) -> None:
        super().__init__()
        self.network = network_of(host)
        self.accepted_at = self.last_activity
        self.opening: asyncio.Task[None] | None = None
        self.turned_away = ""
        self._socket = accepted
        self._peer = host
        self._listener = listener
        self._app = listener.app
        self._is_stranger = True
        self._is_aborted = False
        self._refused_at: float | None = None  # loop time
        self._request: Request | None = None
        self._keep_alive = True
        self._is_head_request = False
        self._num_unsent_before = 0
        self._head_since = 0.0  # loop time at which an unfinished head was first seen
        self._is_streaming = False
        self._num_pending_bytes = 0
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._is_aborted:
            super().abort()

    def abort(self) -> None:
        self._is_aborted = True
        if self._transport is not None:
            super().abort()
        elif self.opening is not None:
            with contextlib.suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RDWR)  # which ends a handshake, on any loop

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._listener.forget(self)
        self._release()
        if self.task is not None:
            self.task.cancel()

    def head_received(self, head: bytes) -> int:
        fields = Head(httptools.HttpRequestParser, head)
        if self.turned_away:
            raise ProtocolError(self.turned_away, 503)
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
        length, is_chunked = content_length(fields.headers), "transfer-encoding" in fields.headers
        refusal = self._app.admit(self._request, length)
        if refusal is not None:
            self._is_stranger &= refusal.status in (401, 403)
            self._refuse(refusal, is_unread=is_chunked or length > self._filled)
            return 0
        if is_chunked:
            raise ProtocolError("send the body with a Content-Length", 411)
        self._is_stranger = False
        self._listener.crowd.set_busy(self)
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
        assert self._request is not None
        self._request.body = [body]
        self.task = self.loop.create_task(self._respond(self._request))
        self._request = None

    def fail(self, error: Exception) -> None:
        status = error.status if isinstance(error, ProtocolError) else 400
        retry_after = RETRY_AFTER_SECONDS if status == 503 else None
        self._listener.num_unread += 1
        self._refuse(Reply.refusal(status, str(error), retry_after), is_unread=True)

    def _refuse(self, reply: Reply, *, is_unread: bool) -> None:
        """Say no to a request that was not handled, and close: where the next one would begin may be unknown.

        What a flood of refused requests gets is short; one that is not read to its end is read on for a moment, or its
        client would find the connection reset before it sees the answer.
        """
        self._release()
        self.discard_input()
        self._keep_alive = False
        self._refused_at = self.loop.time()
        transport, listener = self._transport, self._listener
        if transport is None or self.task is not None:
            self.abort()
            return
        is_counted = self._is_stranger and not self.turned_away
        if is_counted and not listener.failures.is_answered(self.network, self._refused_at):
            reply, is_unread = _TOO_MANY, False
        head = self._head(reply, f"Content-Length: {num_bytes(reply.body)}")
        transport.write(b"".join((head, *(() if self._is_head_request else reply.body))))
        if not is_unread:
            self.close()
            return
        if transport.can_write_eof():
            with contextlib.suppress(OSError):  # the peer has reset the connection just now
                transport.write_eof()
        listener.crowd.let_linger(self)

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
            self._listener.crowd.set_idle(self)
            self.next_message()
        else:
            self.close()

    async def _send_stream(self, reply: Reply) -> None:
        assert reply.stream is not None
        self._is_streaming = True
        async with contextlib.aclosing(reply.stream) as chunks:
            await self.send(self._head(reply, "Transfer-Encoding: chunked"))
            if self._is_head_request:
                self._is_streaming = False
                return
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

    @property
    def is_idle(self) -> bool:
        """Whether no request is being received, handled or answered; a head that is not whole does not count as one."""
        return self.task is None and self._target is None and not self.num_unsent_bytes

    def close_if_stale(self, now: float) -> None:
        """Abort a connection whose peer went silent in mid-message, sends a head byte by byte, or idles for long."""
        if self._refused_at is not None:
            if now - self._refused_at > LINGER_SECONDS:
                self.abort()
            return
        if self._is_stranger:
            if now - self.accepted_at > STRANGER_SECONDS:
                self.abort()
            return
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
