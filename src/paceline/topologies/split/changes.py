"""Waiting for something that others do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from paceline.axon import loops


class Changes:
    """Tells all who wait that something has happened."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Something happened that others may have waited for."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def next(self, seconds: float | None) -> None:
        """Wait for the next change, for at most so long."""
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            if seconds is None:
                await asyncio.wait((waiting,))
            else:
                await loops.settled(waiting, seconds)
        finally:
            waiting.cancel()

    async def until(self, is_so: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until something is so, or for at most so long."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while not is_so():
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                return
            await self.next(left)
