"""Sends requests over kept-alive HTTP/1.1 connections, a pool per event loop and address."""

from __future__ import annotations

import asyncio
import functools
import select
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import replace
from urllib.parse import quote, urlencode

import httptools

from paceline.axon import loops
from paceline.axon.messages import Body, Reply, Request, Stream, num_bytes
from paceline.axon.tls import watch_certificate_requests
from paceline.axon.transports.base import Address
from paceline.axon.transports.http import protocol
from paceline.axon.transports.http.protocol import Head, HttpProtocol, ProtocolError, content_length
from paceline.errors import BadReply, ConnectionLost, TimedOut, TlsFailed, TransportError, Unreachable

CONNECT_SECONDS = 10.0
KEEP_SECONDS = 60.0  # shorter than a server's IDLE_SECONDS, so that the client is the one to let go
_SURELY_OPEN_SECONDS = 0.05  # in use so recently that looking would cost more than it is worth
_PROBE_SECONDS = 3.0  # for a handshake, to find out what is wrong
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")
_STREAM_AHEAD = 16  # chunks read before the consumer has taken them


class ConnectionPool:
    """The idle connections of one event loop."""

    def __init__(self, max_body_bytes: int) -> None:
        self._idle: dict[Address, list[ClientConnection]] = {}
        self._max_body_bytes = max_body_bytes
        self.guard: object = None  # closes the pool with its loop

    async def request(self, address: Address, request: Request, timeout: float) -> Reply:
        """Exchange a request for a reply, over a kept connection if there is one."""
        head = _request_head(address, request)
        connection = self._take(address)
        is_new = connection is None
        if connection is None:
            connection = await self._connect(address, min(timeout, CONNECT_SECONDS))
        try:
            return await connection.exchange(head, request.body, timeout)
        except ConnectionLost:
            if is_new and address.trust is None and await _speaks_tls(address):
                hint = "use the https:// address that it printed when it started"
                raise TlsFailed(f"{address} wants TLS: {hint}") from None
            raise

    def release(self, connection: ClientConnection) -> None:
        """Keep a connection whose exchange is over."""
        self._idle.setdefault(connection.address, []).append(connection)

    def discard(self, connection: ClientConnection) -> None:
        """Forget a connection that is closed."""
        idle = self._idle.get(connection.address, [])
        if connection in idle:
            idle.remove(connection)
        if not idle:
            self._idle.pop(connection.address, None)

    async def close(self) -> None:
        """Drop the idle connections."""
        for connections in list(self._idle.values()):
            for connection in list(connections):
                connection.abort()
        self._idle.clear()

    def _take(self, address: Address) -> ClientConnection | None:
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.is_fresh():
                return connection
            connection.abort()
        return None

    async def _connect(self, address: Address, timeout: float) -> ClientConnection:
        loop = asyncio.get_running_loop()
        context = address.trust.context() if address.trust else None
        connection = ClientConnection(self, address, self._max_body_bytes)
        if context is not None:
            watch_certificate_requests(context, connection.certificate_requested)
        opening = loop.create_connection(lambda: connection, address.host, address.port, ssl=context)
        try:
            await loops.within(timeout, opening)
            connection.check_certificate()
            return connection
        except asyncio.CancelledError:
            connection.abort()  # it may just have been made
            raise
        except (asyncio.TimeoutError, TimeoutError):
            raise Unreachable(f"{address} did not accept a connection within {timeout:g} s") from None
        except ssl.SSLError as error:
            raise _tls_failure(address, error) from error
        except (socket.gaierror, UnicodeError) as error:
            raise Unreachable(f"{address}: no such host") from error
        except (OSError, EOFError) as error:
            raise Unreachable(f"{address}: {_reason(error)}") from error


class ClientConnection(HttpProtocol):
    """One connection to a worker; carries one exchange at a time."""

    def __init__(self, pool: ConnectionPool, address: Address, max_body_bytes: int) -> None:
        super().__init__()
        self.address = address
        self.max_chunk_bytes = max_body_bytes
        self._pool = pool
        self._max_body_bytes = max_body_bytes
        self._waiter: asyncio.Future[Reply] | None = None
        self._reply: Reply | None = None
        self._chunks: _Chunks | None = None
        self._keep_alive = True
        self._has_other_certificate = False
        self._is_certificate_requested = False
        self._has_been_answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Compare the far certificate with the pinned one, before anything is sent."""
        super().connection_made(transport)
        if self.address.trust is not None:
            tls: ssl.SSLObject = transport.get_extra_info("ssl_object")
            if not self.address.trust.verify(tls.getpeercert(binary_form=True)):
                self._has_other_certificate = True
                self.abort()

    def certificate_requested(self) -> None:
        """Note that the far side asks for a certificate of ours; it hangs up if it does not like what it gets."""
        self._is_certificate_requested = True

    def check_certificate(self) -> None:
        """Raise `TlsFailed` if the far certificate is not the pinned one, also if the connection is gone already."""
        if self.address.trust is not None and self._has_other_certificate:
            raise TlsFailed(
                f"{self.address} has another certificate than the pinned {self.address.trust.fingerprint}, so nothing "
                "was sent: copy the address again from where it was started"
            )

    def is_fresh(self) -> bool:
        """Return whether the connection can carry another exchange, as far as can be told."""
        idle_seconds = self.loop.time() - self.last_activity
        if self._transport is None or self.is_closed or idle_seconds > KEEP_SECONDS:
            return False
        if idle_seconds < _SURELY_OPEN_SECONDS:
            return True
        # Readable though nothing was asked: the far side has closed it, and the loop has not noticed yet.
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    async def exchange(self, head: bytes, body: Body, timeout: float) -> Reply:
        """Send a request and wait for its reply (for a stream: for its head)."""
        if self._transport is None:
            hung_up = self._certificate_refusal()
            raise hung_up or Unreachable(f"{self.address} closed the connection before anything was sent")
        self.next_message()
        waiter = self._waiter = self.loop.create_future()
        timer = self.loop.call_later(timeout, self._time_out, timeout)
        # The answer may come before all is sent, a refusal for instance: so do not wait for the sending.
        sending = self.loop.create_task(self.send(head, body)) if num_bytes(body) > protocol.SMALL_BYTES else None
        try:
            if sending is None:
                await self.send(head, body)
            reply: Reply = await waiter
        except BaseException:
            self.abort()  # an exchange given up midway: closing tells the far side to stop
            raise
        finally:
            timer.cancel()
            self._waiter = None
            if sending is not None and not sending.done():
                sending.cancel()
                self.abort()
        if reply.stream is None:
            self._finish()
        return reply

    def head_received(self, head: bytes) -> int:
        fields = Head(httptools.HttpResponseParser, head)
        self._has_been_answered = True
        self._keep_alive = fields.keep_alive
        self._reply = Reply(fields.parser.get_status_code(), fields.headers)
        if self._waiter is None:
            raise ProtocolError("an answer came to no question")
        if fields.headers.get("transfer-encoding") == "chunked":
            self._chunks = _Chunks(self)
            self._reply.stream = Stream(self._chunks.bodies(), self._chunks.close)
            self._answer(self._reply)
            return protocol.CHUNKED
        length = content_length(fields.headers)
        if length > self._max_body_bytes:
            raise ProtocolError(f"a reply of {length} bytes is over the limit of {self._max_body_bytes}")
        return length

    def body_received(self, body: memoryview) -> None:
        assert self._reply is not None
        self._reply.body = [body]
        self._answer(self._reply)

    def chunk_received(self, chunk: memoryview) -> None:
        assert self._chunks is not None
        self._chunks.put(chunk)
        if not chunk:
            self._chunks = None
            self._finish()

    def fail(self, error: Exception) -> None:
        self._break_off(BadReply(f"{self.address} answered no valid HTTP: {error}"))
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.discard(self)
        has_begun = self._filled > 0 or self._target is not None or self._chunks is not None
        super().connection_lost(exc)
        refusal = _tls_failure(self.address, exc) if isinstance(exc, ssl.SSLError) else self._certificate_refusal()
        if refusal is not None:
            self._break_off(refusal)
        how = "in the middle of its answer" if has_begun else "without an answer"
        self._break_off(ConnectionLost(f"{self.address} closed the connection {how}; it may have died"))

    def _certificate_refusal(self) -> TransportError | None:
        """Return what to think of a far side that asked for a certificate and hung up; asyncio sends no reasons."""
        if self.address.trust is None or self._has_been_answered or not self._is_certificate_requested:
            return None
        own = self.address.trust.cert_file
        if own is None:
            return TlsFailed(f"{self.address} demands a certificate of its callers: give yours, with --cert and --key")
        return ConnectionLost(f"{self.address} hung up, perhaps because it does not accept the certificate {own}")

    def _time_out(self, timeout: float) -> None:
        self._break_off(TimedOut(f"{self.address} did not answer within {timeout:g} s"))

    def _answer(self, reply: Reply) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(reply)

    def _break_off(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        elif self._chunks is not None:
            self._chunks.put(error)

    def _finish(self) -> None:
        self._reply = None
        if self._keep_alive and not self.is_closed:
            self._pool.release(self)
        else:
            self.abort()  # all has come; a parting by TLS would wait for the far side, and outlive the loop


class _Chunks:
    """Chunks on their way from a connection to the consumer of a stream."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._items: deque[memoryview | Exception] = deque()
        self._has_items = asyncio.Event()
        self._is_paused = self._is_over = False

    def put(self, item: memoryview | Exception) -> None:
        self._items.append(item)
        self._has_items.set()
        if len(self._items) >= _STREAM_AHEAD and not self._is_paused:
            self._is_paused = True
            self._connection.read(False)

    async def bodies(self) -> AsyncGenerator[Body, None]:
        while True:
            while not self._items:
                self._has_items.clear()
                await self._has_items.wait()
            item = self._items.popleft()
            if self._is_paused and not self._items:
                self._is_paused = False
                self._connection.read(True)
            self._is_over = isinstance(item, Exception) or not item
            if isinstance(item, Exception):
                raise item
            if self._is_over:
                return
            yield [item]

    async def close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._connection.abort()  # tells the far side to stop


_quote = functools.lru_cache(maxsize=256)(quote)


def _request_head(address: Address, request: Request) -> bytes:
    target = _quote(request.path)
    if request.query:
        target = f"{target}?{urlencode(request.query)}"
    host = f"[{address.host}]" if ":" in address.host else address.host
    lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    length = num_bytes(request.body)
    return (
        f"{request.method} {target} HTTP/1.1\r\nHost: {host}:{address.port}\r\n{lines}Content-Length: {length}\r\n\r\n"
    ).encode("latin-1")


async def _speaks_tls(address: Address) -> bool:
    """Find out whether TLS is spoken where plain HTTP got no answer; sends nothing but the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _, writer = await loops.within(_PROBE_SECONDS, asyncio.open_connection(address.host, address.port, ssl=context))
    except (OSError, EOFError, asyncio.TimeoutError, TimeoutError):
        return False
    writer.transport.abort()
    return True


def _tls_failure(address: Address, error: ssl.SSLError) -> Unreachable:
    """Translate a failed handshake; final where trying again would fail alike."""
    if error.reason in _NOT_TLS:
        return TlsFailed(f"{address} does not speak TLS: use {replace(address, trust=None)}")
    unverified = getattr(error, "verify_message", "")
    if unverified.startswith("self-signed"):
        return TlsFailed(
            f"{address} has a self-signed certificate: add its fingerprint to the address, {address}#sha256:…, as it "
            "printed when it started"
        )
    if unverified:
        return TlsFailed(f"the certificate of {address} cannot be verified: {unverified}")
    return Unreachable(f"no TLS connection to {address}: {error.reason or error}")


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there (connection refused)"
    return str(getattr(error, "strerror", None) or error)
