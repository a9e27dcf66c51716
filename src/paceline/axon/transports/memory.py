"""Requests within one process: the same exchanges without sockets, at any speed of time."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any
from weakref import WeakSet

from paceline.axon.messages import Body, Reply, Request, num_bytes
from paceline.axon.tls import ServerIdentity
from paceline.axon.transports.base import Address, App, Listener, Transport, answer
from paceline.axon.transports.links import Link, LinkInUse, Pump
from paceline.errors import ConfigError, Unreachable


class MemoryNetwork:
    """The hosts of an imagined network, all on one event loop."""

    def __init__(self) -> None:
        self.listeners: dict[tuple[str, int], MemoryListener] = {}
        self.free_ports = itertools.count(49152)

    def host(self, name: str, link: Link = Link()) -> MemoryTransport:  # noqa: B008  (frozen)
        """Make a host's transport: its requests come from there, over its link, and its listeners are reached there."""
        return MemoryTransport(self, name, link)


class MemoryListener(Listener):
    """An app at an address of the network, behind its host's link."""

    def __init__(self, network: MemoryNetwork, app: App, address: Address, link: LinkInUse) -> None:
        self.app = app
        self.link = link
        self.address = address
        self.exchanges: dict[asyncio.Task[Any], None] = {}  # in the order in which they began
        self.pumps: WeakSet[Pump] = WeakSet()
        self._network = network
        network.listeners[(address.host, address.port)] = self

    async def close(self) -> None:
        self._network.listeners.pop((self.address.host, self.address.port), None)
        exchanges = list(self.exchanges)
        for exchange in exchanges:
            exchange.cancel()
        for pump in list(self.pumps):
            pump.break_off()
        await asyncio.gather(*exchanges, return_exceptions=True)


class MemoryTransport(Transport):
    """One host's way into a `MemoryNetwork`. There is nobody to listen in, so TLS is not imitated."""

    def __init__(self, network: MemoryNetwork, host: str, link: Link) -> None:
        self._network = network
        self._host = host
        self.link = LinkInUse(link)  # to be cut and mended, or made slower

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        listener = self._network.listeners.get((address.host, address.port))
        far = None if listener is None else listener.link
        return await self.link.exchange(address, request, lambda: self._ask(address, request), timeout=timeout, far=far)

    async def _ask(self, address: Address, request: Request) -> Reply:
        listener = self._network.listeners.get((address.host, address.port))
        if listener is None:
            raise Unreachable(f"{address}: nobody listens there")
        body = _copy(request.body)
        arrived = Request(request.method, request.path, request.query, request.headers, body, self._host)
        refusal = listener.app.admit(arrived, num_bytes(request.body))
        if refusal is not None:
            return Reply(refusal.status, refusal.headers, _copy(refusal.body))
        exchange = asyncio.current_task()
        assert exchange is not None
        listener.exchanges[exchange] = None
        try:
            reply = await answer(listener.app, arrived)
        finally:
            listener.exchanges.pop(exchange, None)
        if reply.stream is None:
            return Reply(reply.status, reply.headers, _copy(reply.body))
        pump = Pump(reply.stream, _arrived, f"{address} broke off in the middle of its answer")
        listener.pumps.add(pump)
        return Reply(reply.status, reply.headers, stream=pump.stream)

    async def reply_host(self, address: Address) -> str:
        return self._host

    async def listen(self, app: App, host: str, port: int, identity: ServerIdentity | None = None) -> Listener:
        address = Address(self._host, port or next(self._network.free_ports))
        if (address.host, address.port) in self._network.listeners:
            raise ConfigError(f"cannot listen on {address}: it is taken")
        return MemoryListener(self._network, app, address, self.link)


def _copy(body: Body) -> Body:
    """Copy a body into one buffer of the receiver's own, as every receiver gets it."""
    return (memoryview(bytearray().join(body)),) if body else ()


async def _arrived(body: Body) -> Body:
    return _copy(body)
