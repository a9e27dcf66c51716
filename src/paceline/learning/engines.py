"""Engines do the work of a device piece by piece: the interface, and one that works in a thread, in real time."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from paceline.learning.accelerators import CPU, Accelerator

T = TypeVar("T")


class Engine(ABC):
    """Does pieces of work, one at a time, and takes the time that its device takes.

    Args:
        accelerator: what models are to be placed on, for the work.

    Attributes:
        busy_seconds: time worked so far, by the running loop's clock.
    """

    def __init__(self, accelerator: Accelerator = CPU) -> None:
        self.accelerator = accelerator
        self.busy_seconds = 0.0

    async def run(self, work: Callable[[], T], operations: float) -> T:
        """Do a piece of work of about so many multiplications and additions, and return its result."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            return await self._run(work, operations)
        finally:
            self.busy_seconds += loop.time() - start

    async def rehearse(self, work: Callable[[], object], operations: float) -> None:
        """Do a piece of work whose result is not needed, such as a benchmark's."""
        await self.run(work, operations)

    @abstractmethod
    async def _run(self, work: Callable[[], T], operations: float) -> T: ...


class ThreadEngine(Engine):
    """Works in a thread, in real time.

    Args:
        slowdown: factor by which to slow this device down, by a pause after each piece of work.
        accelerator: see `Engine`; a piece of work ends when this has done it.
    """

    def __init__(self, slowdown: float = 1.0, accelerator: Accelerator = CPU) -> None:
        super().__init__(accelerator)
        self._slowdown = slowdown

    async def _run(self, work: Callable[[], T], operations: float) -> T:
        result, busy_seconds = await asyncio.to_thread(self._timed, work)
        if self._slowdown > 1:
            await asyncio.sleep((self._slowdown - 1) * busy_seconds)
        return result

    def _timed(self, work: Callable[[], T]) -> tuple[T, float]:
        clock = time.thread_time if self.accelerator.is_cpu else time.monotonic  # it idles while another one computes
        start = clock()
        result = work()
        self.accelerator.synchronise()
        return result, clock() - start
