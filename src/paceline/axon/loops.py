"""Event loops: the background one that blocking callers use, and letting go of things when a loop ends."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest loop there is on this machine."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def close_with_loop(close: Callable[[], Awaitable[None]]) -> object:
    """Have `close` awaited when the running loop shuts down; keep the returned object until then.

    asyncio has one hook for this: `asyncio.run` closes the async generators that have been started.
    """

    async def guard() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await close()

    generator = guard()
    await anext(generator)
    return generator


class BackgroundLoop:
    """An event loop in a daemon thread, started when first used and stopped with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process_id = 0

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there; the future is for other threads."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it. Interrupting the wait cancels it."""
        if self.is_current():
            coroutine.close()
            raise RuntimeError("a blocking call on Axon's own event loop would wait for itself; await a Coro stub")
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def is_current(self) -> bool:
        """Whether the caller is on this loop's thread."""
        return threading.current_thread() is self._thread

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process_id != os.getpid():  # threads do not survive a fork
                self._loop = new_event_loop()
                self._process_id = os.getpid()
                self._thread = threading.Thread(target=self._serve, args=(self._loop,), name="axon", daemon=True)
                self._thread.start()
                atexit.register(self._stop, self._loop, self._thread, self._process_id)
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    @staticmethod
    def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process_id: int) -> None:
        if process_id == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=5)


background = BackgroundLoop()
"""The loop behind every blocking call of this process."""
