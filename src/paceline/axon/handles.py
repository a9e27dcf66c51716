"""Calls that go on in the background."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any

from paceline.axon import loops
from paceline.axon.client.blocking import for_threads
from paceline.axon.client.caller import ValueStream
from paceline.errors import TimedOut


class Handle:
    """A call under way. Wait for it with `join`, from any thread, or await it.

    Attributes:
        call_id: with which another process can reattach to a duplex call.
    """

    def __init__(self, call_id: str, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.call_id = call_id
        self._future = loops.background.submit(coroutine)

    def join(self, timeout: float | None = None) -> Any:
        """Wait for the result and return it, or raise what the call raised.

        Args:
            timeout: seconds to wait; past them `TimedOut` is raised and the call goes on.
        """
        try:
            return for_threads(self._future.result(timeout), loops.background)
        except TimedOut:
            raise  # the call itself was late
        except concurrent.futures.TimeoutError as error:
            raise TimedOut(f"call {self.call_id} has not ended within {timeout:g} s; it goes on") from error

    def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return self._future.done()

    def cancel(self) -> bool:
        """Give up on the call; the far function is stopped where it can be. False if it had ended already."""
        return self._future.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        result = yield from asyncio.wrap_future(self._future).__await__()
        return _from_background(result) if isinstance(result, ValueStream) else result


def _from_background(stream: ValueStream) -> ValueStream:
    """Adapt a stream of the background loop for use on the running one."""

    async def items() -> AsyncGenerator[Any, None]:
        while True:
            is_item, item = await asyncio.wrap_future(loops.background.submit(stream.take()))
            if not is_item:
                return
            yield item

    async def close() -> None:
        await asyncio.wrap_future(loops.background.submit(stream.aclose()))

    return ValueStream(items(), close)
