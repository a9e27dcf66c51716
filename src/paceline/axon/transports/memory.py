"""Requests within one process: the same exchanges without sockets, at any speed of time."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any
from weakref import WeakSet

from paceline.axon import loops
from paceline.axon.messages import Body, Reply, Request, num_bytes
from paceline.axon.tls import ServerIdentity
from paceline.axon.transports.base import Address, App, Listener, Transport, answer
from paceline.axon.transports.links import Fault, Line, Link
from paceline.axon.transports.pump import Pump
from paceline.errors import ConfigError, ConnectionLost, TimedOut, Unreachable


class MemoryNetwork:
    """The hosts of an imagined network, all on one event loop."""

    def __init__(self) -> None:
        self.listeners: dict[tuple[str, int], MemoryListener] = {}
        self.free_ports = itertools.count(49152)

    def host(self, name: str, link: Link | None = None) -> MemoryTransport:
        """The transport of a host: its requests come from there, over its link, its listeners are reached there."""
        return MemoryTransport(self, name, link)


class MemoryListener(Listener):
    """An app at an address of the network."""

    def __init__(self, network: MemoryNetwork, app: App, address: Address) -> None:
        self.app = app
        self.address = address
        self.exchanges: set[asyncio.Task[Any]] = set()
        self.pumps: WeakSet[Pump] = WeakSet()
        self._network = network

    async def close(self) -> None:  # noqa: D102
        self._network.listeners.pop((self.address.host, self.address.port), None)
        exchanges = list(self.exchanges)
        for exchange in exchanges:
            exchange.cancel()
        for pump in list(self.pumps):
            pump.break_off()
        await asyncio.gather(*exchanges, return_exceptions=True)


class MemoryTransport(Transport):
    """One host's way into a `MemoryNetwork`. There is nobody to listen in, so TLS is not imitated."""

    def __init__(self, network: MemoryNetwork, host: str, link: Link | None = None) -> None:
        self._network = network
        self._host = host
        self._line = Line(link) if link is not None else None
        self._is_cut = False
        self._under_way: set[asyncio.Future[Reply]] = set()
        self._pumps: WeakSet[Pump] = WeakSet()

    def cut(self) -> None:
        """Take this host off the network: what it has asked is lost, and it reaches nobody any more."""
        self._is_cut = True
        for exchange in self._under_way:
            exchange.cancel()
        for pump in list(self._pumps):
            pump.break_off()

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:  # noqa: D102
        exchange = asyncio.get_running_loop().create_task(self._exchange(address, request))
        self._under_way.add(exchange)
        try:
            if not await loops.settled(exchange, timeout):
                raise TimedOut(f"{address} did not answer within {timeout:g} s")
        finally:
            exchange.cancel()  # does nothing to one that is done
            self._under_way.discard(exchange)
        if exchange.cancelled():
            raise ConnectionLost(f"{address} closed the connection without an answer")
        return exchange.result()

    async def _exchange(self, address: Address, request: Request) -> Reply:
        if self._is_cut:
            raise Unreachable(f"{address}: the link is cut")
        fault = Fault.NONE
        if self._line is not None:
            fault = self._line.fate(request)
            await self._line.up.carry(request.body)
        if fault is Fault.LOSE_REQUEST:
            raise ConnectionLost(f"{address}: the request was lost")
        reply = await self._ask(address, request)
        if fault is Fault.LOSE_REPLY:
            if reply.stream is not None:
                await reply.stream.aclose()
            raise ConnectionLost(f"{address}: the reply was lost")
        if self._line is not None:
            await self._line.down.carry(reply.body)
        return reply

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
        listener.exchanges.add(exchange)
        try:
            reply = await answer(listener.app, arrived)
        finally:
            listener.exchanges.discard(exchange)
        if reply.stream is None:
            return Reply(reply.status, reply.headers, _copy(reply.body))
        pump = Pump(reply.stream, self._arrived, f"{address} broke off in the middle of its answer")
        listener.pumps.add(pump)
        self._pumps.add(pump)
        return Reply(reply.status, reply.headers, stream=pump.stream)

    async def _arrived(self, body: Body) -> Body:
        if self._line is not None:
            await self._line.down.carry(body)
        return _copy(body)

    async def reply_host(self, address: Address) -> str:  # noqa: D102
        return self._host

    async def listen(  # noqa: D102
        self, app: App, host: str, port: int, identity: ServerIdentity | None = None
    ) -> Listener:
        address = Address(self._host, port or next(self._network.free_ports))
        key = (address.host, address.port)
        if key in self._network.listeners:
            raise ConfigError(f"cannot listen on {address}: it is taken")
        listener = self._network.listeners[key] = MemoryListener(self._network, app, address)
        return listener


def _copy(body: Body) -> Body:
    """The body in one buffer of the receiver's own, as every receiver gets it."""
    return (memoryview(bytearray().join(body)),) if body else ()
