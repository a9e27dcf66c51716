"""A stream that can be broken off from outside, whoever waits for its next body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from paceline.axon.messages import Body, Stream
from paceline.errors import ConnectionLost


class Pump:
    """Moves the bodies of a stream on, one ahead, in a task of its own.

    Args:
        source: where they come from; closed when the pump ends, however it ends.
        carry: takes a body on its way and returns it as it arrives.
        broken: message of the consumer's error when `break_off` is called.
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
