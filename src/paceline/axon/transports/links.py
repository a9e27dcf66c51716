"""Links that take time and lose things: what the faulty and the in-memory transport charge for what they carry."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakSet

from paceline.axon import loops
from paceline.axon.messages import Body, Reply, Request, Stream, num_bytes
from paceline.axon.transports.base import Address
from paceline.errors import ConfigError, ConnectionLost, TimedOut, TransportError, Unreachable

_BYTES_PER_MBIT = 1e6 / 8
_HEAD_BYTES = 200  # what a request or reply takes besides its body
_LONGEST_HOLD_UP_SECONDS = 2.0  # of requests that are delayed or repeated

Ask: TypeAlias = Callable[[], Awaitable[Reply]]


class Fault(enum.Enum):
    """What happens to one exchange."""

    NONE = "none"
    LOSE_REQUEST = "lose request"  # the far side never sees it
    LOSE_REPLY = "lose reply"  # the far side has acted, and the asking side does not know
    REPEAT = "repeat"  # the far side sees the request again a while later, and nobody waits for that answer
    DELAY = "delay"  # the request is held up for a while, and others overtake it


@dataclass(frozen=True, kw_only=True)
class Link:
    """How a link behaves.

    Attributes:
        latency_seconds: delay, added once each way.
        up_bytes_per_second: bandwidth shared by the requests that are sent over it at the same time.
        down_bytes_per_second: the same for replies.
        loss: probability that an exchange is lost, on its way there or back alike.
        jitter: how far the time of a transfer varies at random, as a ratio: 0.2 is ± 20 %.
        seed: seed of losses and jitter.
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


class LinkInUse:
    """A link in use: exchanges go over it, take their time, and may be lost.

    A `plan` decides the fate of each request by itself, instead of chance; for replaying a fault exactly.

    Attributes:
        fate: decides the fate of each request from now on.
        bandwidth: what is left of the link; it may change, and what is queued goes on as before.
    """

    def __init__(self, link: Link, plan: Callable[[Request], Fault] | None = None) -> None:
        self._loss = link.loss
        self.random = random.Random(link.seed)
        self.fate: Callable[[Request], Fault] = plan or self.by_chance
        self._up = _Direction(link.up_bytes_per_second, link, self)
        self._down = _Direction(link.down_bytes_per_second, link, self)
        self.bandwidth = 1.0
        self._is_cut = False
        self._under_way: dict[asyncio.Task[Reply], None] = {}  # in the order in which they began
        self._pumps: WeakSet[Pump] = WeakSet()
        self._repeated: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Break the link: what is under way is lost, and nobody can be reached until `mend`."""
        self._is_cut = True
        for exchange in list(self._under_way):
            exchange.cancel()
        for repeated in list(self._repeated):
            repeated.cancel()
        for pump in list(self._pumps):
            pump.break_off()

    def mend(self) -> None:
        """Make the link whole again."""
        self._is_cut = False

    async def exchange(
        self, address: Address, request: Request, ask: Ask, *, timeout: float, far: LinkInUse | None = None
    ) -> Reply:
        """Have a request answered by `ask`, there and back over the link, in a task of its own.

        Whoever cancels that task, from the far side for instance, has closed the connection. `far` is the link of
        whoever answers, if that is known; bytes go over both at once, so the slower one counts, and cutting either
        breaks the exchange.
        """
        ends = (self, far or self)
        if self._is_cut or ends[1]._is_cut:
            raise Unreachable(f"{address}: the link is cut")
        exchange = asyncio.get_running_loop().create_task(self._there_and_back(address, request, ask, far))
        for link in ends:
            link._under_way[exchange] = None
        try:
            if not await loops.settled(exchange, timeout):
                raise TimedOut(f"{address} did not answer within {timeout:g} s")
        finally:
            exchange.cancel()  # does nothing to one that is done
            for link in ends:
                link._under_way.pop(exchange, None)
        if exchange.cancelled():
            raise ConnectionLost(f"{address}: the connection was cut while the call was under way")
        return exchange.result()

    async def _there_and_back(self, address: Address, request: Request, ask: Ask, far: LinkInUse | None) -> Reply:
        fault = self.fate(request)
        if fault is Fault.DELAY:
            await asyncio.sleep(self._hold_up_seconds())
        await _carry(request.body, [self._up] if far is None else [self._up, far._down])
        if fault is Fault.LOSE_REQUEST:
            raise ConnectionLost(f"{address}: the request was lost")
        if fault is Fault.REPEAT:
            repeated = asyncio.ensure_future(self._ask_again(ask))
            self._repeated.add(repeated)
            repeated.add_done_callback(self._repeated.discard)
        reply = await ask()
        if fault is Fault.LOSE_REPLY:
            if reply.stream is not None:
                await reply.stream.aclose()
            raise ConnectionLost(f"{address}: the reply was lost")
        way_back = [self._down] if far is None else [self._down, far._up]
        await _carry(reply.body, way_back)
        if reply.stream is not None:
            carry = functools.partial(_carry, directions=way_back)
            pump = Pump(reply.stream, carry, f"{address}: the link was cut in the middle of an answer")
            for link in (self, far or self):
                link._pumps.add(pump)
            reply.stream = pump.stream
        return reply

    async def _ask_again(self, ask: Ask) -> None:
        await asyncio.sleep(self._hold_up_seconds())
        with contextlib.suppress(TransportError):
            reply = await ask()
            if reply.stream is not None:
                await reply.stream.aclose()

    def _hold_up_seconds(self) -> float:
        return self.random.random() * _LONGEST_HOLD_UP_SECONDS

    def by_chance(self, request: Request) -> Fault:
        """Return the fate that chance decides, by the loss of the link."""
        if self.random.random() >= self._loss:
            return Fault.NONE
        return self.random.choice((Fault.LOSE_REQUEST, Fault.LOSE_REPLY))


class _Direction:
    """One direction of a link: what is sent over it queues up."""

    def __init__(self, bytes_per_second: float, settings: Link, link: LinkInUse) -> None:
        self._bytes_per_second = bytes_per_second
        self.latency_seconds = settings.latency_seconds
        self.is_free = bytes_per_second == math.inf and not settings.latency_seconds  # nothing takes any time
        self._jitter = settings.jitter
        self._link = link
        self._free_at = 0.0  # loop time when all that is queued has been sent

    def book(self, body: Body) -> float:
        """Queue a body up; returns the loop time when it has been sent."""
        seconds = (_HEAD_BYTES + num_bytes(body)) / (self._link.bandwidth * self._bytes_per_second)
        if self._jitter:
            seconds *= 1 + self._jitter * (2 * self._link.random.random() - 1)
        self._free_at = max(asyncio.get_running_loop().time(), self._free_at) + seconds
        return self._free_at


async def _carry(body: Body, directions: list[_Direction]) -> Body:
    """Take as long as the body takes over links one behind the other, and return it."""
    taking_time = [direction for direction in directions if not direction.is_free]
    if taking_time:
        sent_at = max(direction.book(body) for direction in taking_time)
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()
        timer = loop.call_at(sent_at + sum(direction.latency_seconds for direction in taking_time), _arrive, arrived)
        try:
            await arrived
        finally:
            timer.cancel()
    return body


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


class Pump:
    """Moves the bodies of a stream on, one ahead, in a task of its own; can be broken off from outside.

    The source is closed however the pump ends. `carry` takes a body on its way and returns it as it arrives; `broken`
    is the message of the consumer's error.
    """

    def __init__(self, source: Stream, carry: Callable[[Body], Awaitable[Body]], broken: str) -> None:
        self._source = source
        self._carry = carry
        self._broken = broken
        self._arrived: asyncio.Queue[Body | Exception | None] = asyncio.Queue(maxsize=1)
        self._is_broken = False
        self._task = asyncio.ensure_future(self._run())
        self.stream = Stream(self._bodies(), self._stop)

    def break_off(self) -> None:
        """End the stream at once: the consumer gets `ConnectionLost`, the source is closed."""
        self._is_broken = True
        self._task.cancel()

    async def _run(self) -> None:
        end: Exception | None = None
        try:
            async for body in self._source:
                await self._arrived.put(await self._carry(body))
        except asyncio.CancelledError:
            end = ConnectionLost(self._broken)
        except Exception as error:
            end = error
        finally:
            await self._source.aclose()
        if self._is_broken and self._arrived.full():
            self._arrived.get_nowait()  # nobody may ever take it
        await self._arrived.put(end)

    async def _bodies(self) -> AsyncGenerator[Body, None]:
        while True:
            arrived = await self._arrived.get()
            if arrived is None:
                return
            if isinstance(arrived, Exception):
                raise arrived
            yield arrived

    async def _stop(self) -> None:
        self.break_off()
        await asyncio.wait((self._task,))
