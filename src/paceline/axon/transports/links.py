"""Links that take time and lose things: what transports on purpose, and in memory, charge for what they carry."""

from __future__ import annotations

import asyncio
import enum
import functools
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from paceline.axon import loops
from paceline.axon.messages import Body, Reply, Request, num_bytes
from paceline.axon.transports.base import Address
from paceline.axon.transports.pump import Pump
from paceline.errors import ConfigError, ConnectionLost, TimedOut, Unreachable

_BYTES_PER_MBIT = 1e6 / 8
_HEAD_BYTES = 200  # what a request or reply takes besides its body


class Fault(enum.Enum):
    """What happens to one exchange."""

    NONE = "none"
    LOSE_REQUEST = "lose request"  # the far side never sees it
    LOSE_REPLY = "lose reply"  # the far side has acted, and the asking side does not know


@dataclass(frozen=True, kw_only=True)
class Link:
    """How a link behaves.

    Attributes:
        latency_seconds: added once each way.
        up_bytes_per_second: shared by the requests that are sent over it at the same time.
        down_bytes_per_second: the same for replies.
        loss: probability that an exchange is lost, on its way there or back alike.
        jitter: how far the time of a transfer varies at random, as a ratio: 0.2 is ± 20 %.
        seed: of what happens by chance.
    """

    latency_seconds: float = 0.0
    up_bytes_per_second: float = math.inf
    down_bytes_per_second: float = math.inf
    loss: float = 0.0
    jitter: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.latency_seconds >= 0 and 0 <= self.loss <= 1 and 0 <= self.jitter < 1):
            raise ConfigError(f"{self}: latency_seconds is at least 0, loss between 0 and 1, jitter from 0 to below 1")
        if not (self.up_bytes_per_second > 0 and self.down_bytes_per_second > 0):
            raise ConfigError(f"{self}: bytes per second are above 0")

    @classmethod
    def in_mbit(cls, *, down_mbit: float, up_mbit: float, latency_ms: float, **others: Any) -> Link:
        """Make a link from the units of job and fleet files: Mbit/s and milliseconds."""
        return cls(
            down_bytes_per_second=down_mbit * _BYTES_PER_MBIT,
            up_bytes_per_second=up_mbit * _BYTES_PER_MBIT,
            latency_seconds=latency_ms / 1000,
            **others,
        )


class Line:
    """A link in use: exchanges go over it, take their time, and may be lost.

    Args:
        plan: decides the fate of each request by itself, instead of chance; for replaying a fault exactly.

    Attributes:
        bandwidth: what is left of the link, as a ratio. It may change; what is queued goes on as before.
    """

    def __init__(self, link: Link, plan: Callable[[Request], Fault] | None = None) -> None:
        self._link = link
        self._random = random.Random(link.seed)
        self._fate = plan or self._by_chance
        self._up = _Lane(link.up_bytes_per_second, link, self._random)
        self._down = _Lane(link.down_bytes_per_second, link, self._random)
        self.bandwidth = 1.0
        self._is_cut = False
        self._under_way: dict[asyncio.Task[Reply], None] = {}  # in the order in which they began
        self._pumps: WeakSet[Pump] = WeakSet()

    def cut(self) -> None:
        """Break the link: what is under way is lost, and nobody can be reached until `mend`."""
        self._is_cut = True
        for exchange in list(self._under_way):
            exchange.cancel()
        for pump in list(self._pumps):
            pump.break_off()

    def mend(self) -> None:
        """Make the link whole again."""
        self._is_cut = False

    async def exchange(
        self,
        address: Address,
        request: Request,
        ask: Callable[[], Awaitable[Reply]],
        *,
        timeout: float,
        far: Line | None = None,
    ) -> Reply:
        """Have a request answered by `ask`, there and back over the link, in a task of its own.

        Whoever cancels that task, from the far side for instance, has closed the connection.

        Args:
            far: the link of whoever answers, if that is known; bytes go over both at once, so the slower one counts,
                and cutting either breaks the exchange.
        """
        if self._is_cut or (far is not None and far._is_cut):
            raise Unreachable(f"{address}: the link is cut")
        exchange = asyncio.get_running_loop().create_task(self._there_and_back(address, request, ask, far))
        lines = (self,) if far is None else (self, far)
        for line in lines:
            line._under_way[exchange] = None
        try:
            if not await loops.settled(exchange, timeout):
                raise TimedOut(f"{address} did not answer within {timeout:g} s")
        finally:
            exchange.cancel()  # does nothing to one that is done
            for line in lines:
                line._under_way.pop(exchange, None)
        if exchange.cancelled():
            raise ConnectionLost(f"{address}: the connection was cut while the call was under way")
        return exchange.result()

    async def _there_and_back(
        self, address: Address, request: Request, ask: Callable[[], Awaitable[Reply]], far: Line | None
    ) -> Reply:
        fault = self._fate(request)
        await _carry(request.body, (self._up, self.bandwidth), *([] if far is None else [(far._down, far.bandwidth)]))
        if fault is Fault.LOSE_REQUEST:
            raise ConnectionLost(f"{address}: the request was lost")
        reply = await ask()
        if fault is Fault.LOSE_REPLY:
            if reply.stream is not None:
                await reply.stream.aclose()
            raise ConnectionLost(f"{address}: the reply was lost")
        await self._bring(reply.body, far)
        if reply.stream is not None:
            carry = functools.partial(self._bring, far=far)
            pump = Pump(reply.stream, carry, f"{address}: the link was cut in the middle of an answer")
            for line in (self,) if far is None else (self, far):
                line._pumps.add(pump)
            reply.stream = pump.stream
        return reply

    async def _bring(self, body: Body, far: Line | None) -> Body:
        """Carry a reply, or a piece of it, back here."""
        await _carry(body, (self._down, self.bandwidth), *([] if far is None else [(far._up, far.bandwidth)]))
        return body

    def _by_chance(self, request: Request) -> Fault:
        if self._random.random() >= self._link.loss:
            return Fault.NONE
        return self._random.choice((Fault.LOSE_REQUEST, Fault.LOSE_REPLY))


class _Lane:
    """One direction of a link: what is sent over it queues up."""

    def __init__(self, bytes_per_second: float, link: Link, chance: random.Random) -> None:
        self._bytes_per_second = bytes_per_second
        self.latency_seconds = link.latency_seconds
        self._jitter = link.jitter
        self._chance = chance
        self._free_at = 0.0  # loop time when all that is queued has been sent

    @property
    def is_free(self) -> bool:
        """Whether nothing takes any time."""
        return self._bytes_per_second == math.inf and not self.latency_seconds

    def book(self, body: Body, bandwidth: float) -> float:
        """Queue a body up for so much of the bandwidth; returns the loop time when it has been sent."""
        seconds = (_HEAD_BYTES + num_bytes(body)) / (bandwidth * self._bytes_per_second)
        if self._jitter:
            seconds *= 1 + self._jitter * (2 * self._chance.random() - 1)
        self._free_at = max(asyncio.get_running_loop().time(), self._free_at) + seconds
        return self._free_at


async def _carry(body: Body, *ways: tuple[_Lane, float]) -> None:
    """Take as long as the body takes over lanes one behind the other, each with so much of its bandwidth."""
    taking_time = [(lane, bandwidth) for lane, bandwidth in ways if not lane.is_free]
    if not taking_time:
        return
    sent_at = max(lane.book(body, bandwidth) for lane, bandwidth in taking_time)
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()
    timer = loop.call_at(sent_at + sum(lane.latency_seconds for lane, _ in taking_time), _arrive, arrived)
    try:
        await arrived
    finally:
        timer.cancel()


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)
