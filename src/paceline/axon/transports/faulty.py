"""A transport that delays, narrows, loses and cuts what another one carries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakSet

from paceline.axon import loops
from paceline.axon.messages import Body, Reply, Request
from paceline.axon.tls import ServerIdentity
from paceline.axon.transports.base import Address, App, Listener, Transport
from paceline.axon.transports.links import Fault, Line, Link
from paceline.axon.transports.pump import Pump
from paceline.errors import ConnectionLost, TimedOut, Unreachable


class FaultyTransport(Transport):
    """Another transport's requests over a bad link; what it serves is untouched.

    Args:
        inner: what really carries the requests.
        link: delays, bandwidth and random loss.
        plan: decides the fate of each request by itself, instead of chance; for replaying a fault exactly.
    """

    def __init__(
        self,
        inner: Transport,
        link: Link = Link(),  # noqa: B008  (frozen)
        plan: Callable[[Request], Fault] | None = None,
    ) -> None:
        self._inner = inner
        self._line = Line(link, plan)
        self._is_cut = False
        self._under_way: set[asyncio.Future[Reply]] = set()
        self._pumps: WeakSet[Pump] = WeakSet()

    def cut(self) -> None:
        """Break the link: what is under way is lost, and nobody can be reached until `mend`."""
        self._is_cut = True
        for exchange in self._under_way:
            exchange.cancel()
        for pump in list(self._pumps):
            pump.break_off()

    def mend(self) -> None:
        """Make the link whole again."""
        self._is_cut = False

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:  # noqa: D102
        if self._is_cut:
            raise Unreachable(f"{address}: the link is cut")
        exchange = asyncio.get_running_loop().create_task(self._exchange(address, request, timeout))
        self._under_way.add(exchange)
        try:
            if not await loops.settled(exchange, timeout):
                raise TimedOut(f"{address} did not answer within {timeout:g} s")
        finally:
            exchange.cancel()
            self._under_way.discard(exchange)
        if exchange.cancelled():
            raise ConnectionLost(f"{address}: the link was cut while the call was under way")
        return exchange.result()

    async def _exchange(self, address: Address, request: Request, timeout: float) -> Reply:
        fault = self._line.fate(request)
        await self._line.up.carry(request.body)
        if fault is Fault.LOSE_REQUEST:
            raise ConnectionLost(f"{address}: the request was lost")
        reply = await self._inner.request(address, request, timeout=timeout)
        if fault is Fault.LOSE_REPLY:
            if reply.stream is not None:
                await reply.stream.aclose()
            raise ConnectionLost(f"{address}: the reply was lost")
        await self._line.down.carry(reply.body)
        if reply.stream is not None:
            pump = Pump(reply.stream, self._slowed, f"{address}: the link was cut in the middle of an answer")
            self._pumps.add(pump)
            reply.stream = pump.stream
        return reply

    async def _slowed(self, body: Body) -> Body:
        await self._line.down.carry(body)
        return body

    async def reply_host(self, address: Address) -> str:  # noqa: D102
        return await self._inner.reply_host(address)

    async def listen(  # noqa: D102
        self, app: App, host: str, port: int, identity: ServerIdentity | None = None
    ) -> Listener:
        return await self._inner.listen(app, host, port, identity)
