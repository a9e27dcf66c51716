"""A call that goes on in the background."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine, Generator, Iterator
from typing import Any

from paceline.axon import loops
from paceline.axon.caller import ValueStream
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
            return for_threads(self._future.result(timeout))
        except concurrent.futures.TimeoutError as error:
            if self._future.done():
                raise  # the call itself timed out
            raise TimedOut(f"call {self.call_id} has not ended within {timeout:g} s; it goes on") from error

    def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return self._future.done()

    def cancel(self) -> bool:
        """Give up on the call; the far function is stopped where it can be. False if it had ended already."""
        return self._future.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self._future).__await__()


class ThreadStream:
    """The items of a generator rpc for ``for``; leaving the loop early stops the far generator with `close`."""

    def __init__(self, stream: ValueStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        is_over, item = loops.background.run(self._next())
        if is_over:
            raise StopIteration
        return item

    async def _next(self) -> tuple[bool, Any]:
        # StopAsyncIteration would not survive the way through a future.
        try:
            return False, await anext(self._stream)
        except StopAsyncIteration:
            return True, None

    def close(self) -> None:
        """Stop: the far generator is closed."""
        loops.background.run(self._stream.aclose())

    def __enter__(self) -> ThreadStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def for_threads(result: Any) -> Any:
    """A call's result for blocking code: a stream of the background loop becomes an ordinary iterator."""
    return ThreadStream(result) if isinstance(result, ValueStream) else result


def call_and_wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a call on the background loop and wait for its result."""
    return for_threads(loops.background.run(coroutine))
