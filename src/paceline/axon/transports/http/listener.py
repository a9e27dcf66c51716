"""Listens, accepts no more connections than there is room for, and lets go of those that idle or stall."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Iterator
from typing import Any

from paceline.axon.metrics import Metric, Sample
from paceline.axon.tls import ClientTrust, ServerIdentity
from paceline.axon.transports.base import Address, App, Listener
from paceline.axon.transports.http.crowd import Crowd
from paceline.axon.transports.http.descriptors import DescriptorLimit
from paceline.axon.transports.http.failures import Failures
from paceline.axon.transports.http.server import ServerConnection
from paceline.errors import ConfigError

MAX_CONNECTIONS = 8192  # the limit of open files may allow fewer
MAX_STRANGERS = 2048  # of these; each may make a worker keep a head of 16 kB, and with TLS 100 kB
HANDSHAKE_SECONDS = 10.0
_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 8  # then those that are here get their turn
_MAX_TURNED_AWAY = 32  # connections beyond the limit that are told so
_PAUSE_SECONDS = 0.2  # if the system has no descriptor or memory for a connection

_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # a name may have an IPv6 address where there is no IPv6

_log = logging.getLogger(__name__)


class HttpListener(Listener):
    """Listening sockets and the connections that came through them."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.crowd: Crowd[ServerConnection] = Crowd()
        self.failures = Failures()
        self.num_pending_bytes = 0  # of bodies that are being received or handled
        self.num_unread = 0  # requests that could not be read, or for which there was no room
        self._loop = asyncio.get_running_loop()
        self._limit = DescriptorLimit.raised()
        self._room = self._limit.total - self._limit.reserved  # how many connections there may be
        self._open: set[ServerConnection] = set()  # whose descriptors are in use: those that are being closed, too
        self._sockets: list[socket.socket] = []
        self._turned_away: dict[ServerConnection, None] = {}
        self._resuming: dict[socket.socket, asyncio.TimerHandle] = {}
        self._has_warned = False
        self._identity: ServerIdentity | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, identity: ServerIdentity | None) -> None:
        """Bind and serve."""
        self._identity = identity
        trust = ClientTrust(identity.fingerprint) if identity else None
        self.address = Address(host, port, trust)
        try:
            self._sockets = await _bind(host, port)
        except (OSError, UnicodeError, OverflowError) as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', error)}") from error
        self.address = Address(host, self._sockets[0].getsockname()[1], trust)
        self._measure_room()
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)
        self._sweeper = self._loop.create_task(self._sweep())

    async def close(self) -> None:
        assert self._sweeper is not None
        for timer in self._resuming.values():
            timer.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets.clear()
        self._sweeper.cancel()
        everyone = list(self._open)
        tasks = [one.task for one in everyone if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._sweeper, return_exceptions=True)
        opening = [one.opening for one in everyone if one.opening is not None]
        for connection in everyone:
            connection.abort()
        await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.sleep(0)

    def metrics(self) -> Iterator[Metric]:
        num_strangers = self.crowd.num_strangers
        connections = {"stranger": num_strangers, "known": len(self.crowd.everyone) - num_strangers}
        samples = [Sample(count, {"state": state}) for state, count in connections.items()]
        yield Metric("paceline_connections", "gauge", "Open connections, by whether a request was let in.", samples)
        pending = [Sample(self.num_pending_bytes)]
        yield Metric("paceline_pending_bytes", "gauge", "Bytes of requests that are received or handled.", pending)
        text = "Requests that could not be read, or for which there was no room."
        yield Metric("paceline_unread_requests_total", "counter", text, [Sample(self.num_unread)])

    def forget(self, connection: ServerConnection) -> None:
        """Take note that a connection is closed; does nothing the second time."""
        self._open.discard(connection)
        self.crowd.remove(connection)
        self._turned_away.pop(connection, None)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, name = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:  # no descriptors, no memory
                self._pause(listening, error)
                return
            accepted.setblocking(False)
            self._take_in(accepted, name[0])

    def _take_in(self, accepted: socket.socket, host: str) -> None:
        is_full = len(self._open) >= min(self._room, MAX_CONNECTIONS) or self.crowd.num_strangers >= MAX_STRANGERS
        connection = ServerConnection(self, accepted, host)
        self._open.add(connection)
        if not is_full or self.crowd.make_room(connection.accepted_at):
            self.crowd.add(connection)
        else:
            self._turn_away(connection)
        connection.opening = self._loop.create_task(self._begin(connection, accepted))

    def _turn_away(self, connection: ServerConnection) -> None:
        """Let a connection for which there is no room say what it wants, to hear that there is none."""
        count = len(self.crowd.everyone)
        connection.turned_away = f"as many are connected as there is room for ({count}); try again later"
        self._turned_away[connection] = None
        if len(self._turned_away) > min(_MAX_TURNED_AWAY, self._limit.reserved // 4):
            oldest = next(iter(self._turned_away))
            del self._turned_away[oldest]
            oldest.abort()
        self._warn(f"{count} connections are open, and all are in use: others are turned away")

    async def _begin(self, connection: ServerConnection, accepted: socket.socket) -> None:
        settings: dict[str, Any] = {}
        if self._identity is not None:
            settings = {"ssl": self._identity.context, "ssl_handshake_timeout": HANDSHAKE_SECONDS}
        try:
            with contextlib.suppress(OSError):  # TLS failed, or took too long, or the peer is gone
                await self._loop.connect_accepted_socket(lambda: connection, accepted, **settings)
        finally:
            connection.opening = None
            if connection.is_closed:
                self.forget(connection)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Accept nothing for a moment: what there is not now would be asked for in a busy loop."""
        self._warn(f"no connection could be accepted: {error.strerror}")
        self.crowd.shed_strangers(_ACCEPTED_AT_ONCE)
        self._loop.remove_reader(listening)
        self._resuming[listening] = self._loop.call_later(_PAUSE_SECONDS, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        del self._resuming[listening]
        self._loop.add_reader(listening, self._accept, listening)

    def _warn(self, trouble: str) -> None:
        """Log that there is no room; once, or an attacker could fill the log."""
        if not self._has_warned:
            self._has_warned = True
            hint = f"{self._limit.total} files may be open (ulimit -n), {self._limit.reserved} of them are reserved"
            _log.warning("%s: %s; %s", self.address, trouble, hint)

    async def _sweep(self) -> None:
        """Close connections that idle too long or stall; one timer for all of them."""
        while True:
            await asyncio.sleep(1.0)
            now = self._loop.time()
            self._measure_room()
            for connection in list(self._open):
                connection.close_if_stale(now)

    def _measure_room(self) -> None:
        with contextlib.suppress(OSError):  # no descriptor to look with, or nowhere to look
            self._room = self._limit.room(len(self._open))


async def _bind(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host name."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with contextlib.ExitStack() as stack:
        listening: list[socket.socket] = []
        for family, kind, protocol, _, name in dict.fromkeys(found):
            try:
                listening.append(stack.enter_context(_listening_socket(family, kind, protocol, name)))
            except OSError as error:
                if error.errno not in _NO_SUCH_FAMILY or (not listening and name == found[-1][-1]):
                    raise
        stack.pop_all()
        return listening


def _listening_socket(family: int, kind: int, protocol: int, name: Any) -> socket.socket:
    one = socket.socket(family, kind, protocol)  # with a protocol of 0, Python's own loop would not set TCP_NODELAY
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(name)
        one.listen(_BACKLOG)
        one.setblocking(False)
    except OSError:
        one.close()
        raise
    return one
