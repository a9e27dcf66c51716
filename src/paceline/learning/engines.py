"""Who does the work of a device, piece by piece: the interface, and the one that works in a thread in real time."""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from paceline.errors import ConfigError

T = TypeVar("T")


class Engine(ABC):
    """Does pieces of work, one at a time, and takes the time that its device takes.

    Attributes:
        busy_seconds: that it has worked, by the running loop's clock.
    """

    def __init__(self) -> None:
        self.busy_seconds = 0.0

    async def run(self, work: Callable[[], T], operations: float) -> T:
        """Do a piece of work of about so many multiplications and additions, and return what comes of it."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            return await self._run(work, operations)
        finally:
            self.busy_seconds += loop.time() - start

    async def rehearse(self, work: Callable[[], object], operations: float) -> None:
        """The same for work that nobody wants the outcome of, such as a benchmark's."""
        await self.run(work, operations)

    @abstractmethod
    async def _run(self, work: Callable[[], T], operations: float) -> T: ...


class ThreadEngine(Engine):
    """Works in a thread, in real time.

    Args:
        slowdown: makes this device so many times slower than it is, by a rest after each piece of work.
    """

    def __init__(self, slowdown: float = 1.0) -> None:
        super().__init__()
        if not 1 <= slowdown < math.inf:
            raise ConfigError(f"slowdown is {slowdown:g}; it must be at least 1")
        self._slowdown = slowdown

    async def _run(self, work: Callable[[], T], operations: float) -> T:
        result, busy_seconds = await asyncio.to_thread(_timed, work)
        if self._slowdown > 1:
            await asyncio.sleep((self._slowdown - 1) * busy_seconds)
        return result


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.thread_time()
    return work(), time.thread_time() - start
