"""HTTP/1.1 over sockets: what real devices use."""

from __future__ import annotations

import asyncio
import socket
from weakref import WeakKeyDictionary

from paceline.axon import access, loops
from paceline.axon.messages import Reply, Request
from paceline.axon.tls import ServerIdentity
from paceline.axon.transports.base import Address, App, Listener, Transport
from paceline.axon.transports.http.client import ConnectionPool
from paceline.axon.transports.http.listener import HttpListener
from paceline.errors import Unreachable

__all__ = ["HttpTransport", "default_transport"]


class HttpTransport(Transport):
    """Requests over kept-alive connections, with replies of limited size; any number of event loops may share it."""

    is_free_of_loops = True

    def __init__(self, max_body_bytes: int = 4 << 30) -> None:
        self._max_body_bytes = max_body_bytes
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, ConnectionPool] = WeakKeyDictionary()

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = self._pools[loop] = ConnectionPool(self._max_body_bytes)
            pool.guard = await loops.close_with_loop(lambda: self._close_pool(loop))
        return await pool.request(address, request, timeout)

    async def _close_pool(self, loop: asyncio.AbstractEventLoop) -> None:
        pool = self._pools.pop(loop, None)  # it holds on to the loop, which would never go otherwise
        if pool is not None:
            await pool.close()

    async def reply_host(self, address: Address) -> str:
        if access.is_ip_address(address.host):
            return self._local_host(address)
        return await asyncio.get_running_loop().run_in_executor(None, self._local_host, address)  # asks for the name

    @staticmethod
    def _local_host(address: Address) -> str:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((address.host, address.port))  # sends nothing, but chooses the way
            except (OSError, UnicodeError) as error:
                raise Unreachable(f"{address}: {getattr(error, 'strerror', error)}") from error
            return str(probe.getsockname()[0])

    async def listen(self, app: App, host: str, port: int, identity: ServerIdentity | None = None) -> Listener:
        listener = HttpListener(app)
        await listener.start(host, port, identity)
        return listener


default_transport = HttpTransport()
"""Shared by all clients of this process, so that they share connections."""
