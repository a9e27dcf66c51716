"""HTTP/1.1 as both ends of a connection need it: httptools parses heads, bodies land where they are used.

A body is received straight into one buffer of its announced length, and sent as the buffers it is made of, so
that a hundred megabytes of tensors cost no copy but the socket's. See docs/decisions/0001.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

import httptools
import numpy as np

from paceline.axon.messages import Body, num_bytes

MAX_HEAD_BYTES = 16 * 1024
CHUNKED = -1
"""Announced by `head_received` instead of a length: the body is a stream of chunks."""

_TLS_HANDSHAKE = 0x16  # first byte that a client of TLS sends; no HTTP begins with it
SMALL_BYTES = 64 * 1024  # up to here one joined write is cheaper than several
_SLICE_BYTES = 256 * 1024  # what a copying event loop may buffer at a time


class ProtocolError(Exception):
    """The bytes received are not the HTTP spoken here. `status` is what a server answers to it."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class HttpProtocol(asyncio.BufferedProtocol):
    """Reads messages and writes them, for the client and the server side alike.

    A subclass implements `head_received`, `body_received`, for streams `chunk_received`, and `fail`. After a
    body no further head is parsed until `next_message` is called, so messages are handled one at a time.
    """

    max_chunk_bytes = 1 << 40  # of a stream; a client sets its own

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.last_activity = self.loop.time()
        self._scratch = bytearray()  # of MAX_HEAD_BYTES from the first byte on: many connections never send one
        self._scratch_view = memoryview(self._scratch)
        self._filled = 0  # bytes of scratch that wait to be parsed
        self._target: memoryview | None = None  # where the body or chunk under way goes
        self._received = 0  # bytes of target that have come
        self._state = self._parse_head
        self._is_busy = False  # a message is being handled: parse no further
        self._is_discarding = False
        self._transport: asyncio.Transport | None = None
        self._drained: asyncio.Future[None] | None = None
        self._copies_on_write = True

    # What a subclass provides.

    def head_received(self, head: bytes) -> int:
        """Take a head with its empty line; return the length of the body to come, or CHUNKED."""
        raise NotImplementedError

    def body_grew(self, num_bytes: int) -> None:
        """More bytes of a body have come; may raise `ProtocolError` to receive no further."""

    def body_received(self, body: memoryview) -> None:
        """Take a whole body."""
        raise NotImplementedError

    def chunk_received(self, chunk: memoryview) -> None:
        """Take one chunk of a stream; an empty one is its end."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """React to bytes that are not HTTP; called at most once."""
        raise NotImplementedError

    # Reading: called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=SMALL_BYTES, low=0)
        _keep_alive(transport.get_extra_info("socket"))
        is_tls = transport.get_extra_info("ssl_object") is not None
        is_uvloop = type(transport).__module__.startswith("uvloop")
        self._copies_on_write = is_tls or not (is_uvloop or sys.version_info >= (3, 12))

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._target is not None:
            return self._target[self._received :]
        if not self._scratch:
            self._scratch = bytearray(MAX_HEAD_BYTES)
            self._scratch_view = memoryview(self._scratch)
        return self._scratch_view if self._is_discarding else self._scratch_view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self.last_activity = self.loop.time()
        if self._is_discarding:
            return
        try:
            if self._target is not None:
                self._received += nbytes
                self.body_grew(nbytes)
                self._finish_target()
            else:
                self._filled += nbytes
            self._parse()
        except (ProtocolError, httptools.HttpParserError) as error:
            self.discard_input()
            self.fail(error)

    def _parse(self) -> None:
        while self._filled and self._target is None and not self._is_busy and self._state():
            pass
        if self._filled == MAX_HEAD_BYTES:
            self.read(False)  # the peer sends ahead while a message is handled

    def _parse_head(self) -> bool:
        if self._scratch[0] == _TLS_HANDSHAKE:
            raise ProtocolError("this is plain HTTP, not TLS: use http:// instead of https://")
        end = self._scratch.find(b"\r\n\r\n", 0, self._filled)
        if end < 0:
            if self._filled == MAX_HEAD_BYTES:
                raise ProtocolError(f"the head is larger than {MAX_HEAD_BYTES} bytes", 431)
            return False
        head = self._take(end + 4)
        length = self.head_received(head)
        if self._is_discarding:
            return False
        if length == CHUNKED:
            self._state = self._parse_chunk_size
        else:
            self._expect(length)
        return True

    def _parse_chunk_size(self) -> bool:
        end = self._scratch.find(b"\r\n", 0, self._filled)
        if end < 0:
            if self._filled > 32:
                raise ProtocolError("a chunk's size line is too long")
            return False
        line = self._take(end + 2)
        try:
            size = int(line, 16)
        except ValueError:
            raise ProtocolError(f"a chunk's size is {line!r}, not a hexadecimal number") from None
        if not 0 <= size <= self.max_chunk_bytes:
            raise ProtocolError(f"a chunk of {size} bytes is over the limit of {self.max_chunk_bytes}")
        self._expect(size + 2)
        return True

    def _take(self, count: int) -> bytes:
        """Remove and return the first bytes that wait to be parsed."""
        taken = bytes(self._scratch_view[:count])
        left = self._filled - count
        self._scratch_view[:left] = self._scratch_view[count : self._filled]
        self._filled = left
        return taken

    def _expect(self, length: int) -> None:
        """Receive the next `length` bytes into a buffer of their own; the first may have come already."""
        self._target = _allocate(length)
        self._received = min(length, self._filled)
        if self._received:
            self._target[: self._received] = self._take(self._received)
            self.body_grew(self._received)
        self._finish_target()

    def _finish_target(self) -> None:
        target = self._target
        if target is None or self._received < len(target):
            return
        self._target = None
        if self._state == self._parse_chunk_size:
            if bytes(target[-2:]) != b"\r\n":
                raise ProtocolError("a chunk does not end where it says")
            if len(target) == 2:
                self._end_message()
            self.chunk_received(target[:-2])
        else:
            self._end_message()
            self.body_received(target)

    def _end_message(self) -> None:
        self._state = self._parse_head
        self._is_busy = True

    def next_message(self) -> None:
        """Go on to the next message: the last one has been dealt with."""
        self._is_busy = False
        if self._filled == MAX_HEAD_BYTES:
            self.read(True)
        if self._filled:
            self.buffer_updated(0)

    def read(self, is_on: bool) -> None:
        """Read on, or no further for now."""
        if self._transport is not None:
            (self._transport.resume_reading if is_on else self._transport.pause_reading)()

    def discard_input(self) -> None:
        """Read on but keep nothing, so that the peer gets to see the answer before the connection closes."""
        self._is_discarding = True
        self._target = None
        self._filled = 0

    # Writing.

    def pause_writing(self) -> None:
        self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        self.last_activity = self.loop.time()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    async def send(self, head: bytes, body: Body = ()) -> None:
        """Write a message, and return when it is handed to the system whole (or the connection is gone)."""
        transport = self._transport
        assert transport is not None
        if len(head) + num_bytes(body) <= SMALL_BYTES:
            transport.write(b"".join((head, *body)))
        elif not self._copies_on_write:
            transport.writelines([head, *body])
        else:
            for view in (memoryview(part).cast("B") for part in (head, *body)):
                for start in range(0, len(view), _SLICE_BYTES):
                    transport.write(view[start : start + _SLICE_BYTES])
                    if self._drained is not None:
                        await self._drained
        if self._drained is not None:
            await self._drained

    @property
    def num_unsent_bytes(self) -> int:
        """Number of bytes written but not yet handed to the system."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    # The end.

    def connection_lost(self, exc: Exception | None) -> None:
        self.close()  # Python 3.10 calls a TLS transport unclosed that its peer has closed
        self._transport = None
        self._target = None
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone or going."""
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """Close after what is written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


class Head:
    """The fields of one head, as a parser of httptools (for requests or responses) reports them."""

    def __init__(self, make_parser: Callable[[object], Any], head: bytes) -> None:
        self.target = b""
        self.headers: dict[str, str] = {}
        self.keep_alive = self.is_complete = False
        self.parser = make_parser(self)
        try:
            self.parser.feed_data(head)
        except httptools.HttpParserUpgrade:
            raise ProtocolError("no protocol to upgrade to is spoken here") from None
        if not self.is_complete:
            raise ProtocolError("the head has no first line")

    def on_url(self, url: bytes) -> None:
        """Take the request's target (in pieces, should it come so)."""
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Note the end of the head; after a message without a body the parser no longer knows."""
        self.keep_alive = self.parser.should_keep_alive()
        self.is_complete = True


def _keep_alive(connection: Any) -> None:
    """Have the system find out about peers that are gone without a word: power lost, cable pulled."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def content_length(headers: Mapping[str, str]) -> int:
    """Read the body's announced length; llhttp has refused malformed or conflicting ones already."""
    return int(headers.get("content-length", "0").lstrip("0") or "0")


def _allocate(length: int) -> memoryview:
    """Allocate a writable buffer, not zeroed where that would take time: it is about to be filled."""
    if length <= SMALL_BYTES:
        return memoryview(bytearray(length))
    try:
        return np.empty(length, np.uint8).data
    except (MemoryError, ValueError, OverflowError):
        raise ProtocolError(f"no memory for a body of {length} bytes", 413) from None
