"""Event loops for blocking code, and letting go of things when a loop ends."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make the fastest loop there is on this machine; its clock is exact."""
    try:
        make = _exact_uvloop()
    except ImportError:
        return asyncio.new_event_loop()
    return make()


@functools.cache
def _exact_uvloop() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    class ExactLoop(uvloop.Loop):
        """Returns the time of now: uvloop itself returns that of the last wake-up, in whole milliseconds."""

        def time(self) -> float:
            return time.monotonic()

    return ExactLoop


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


async def within(seconds: float | None, awaitable: Awaitable[T]) -> T:
    """Await it for at most so long; raises `asyncio.TimeoutError`, having cancelled it and seen it end.

    Like `asyncio.wait_for`, which before Python 3.12 may swallow a cancellation. Something that cancels itself is an
    error here, not a cancellation of whoever awaits it.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait((task,), timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
    finally:
        if not task.done():
            await _cancel({task})
        elif not task.cancelled():
            task.exception()  # whoever awaits may have been cancelled in the same moment, and will not look at it
    if task.cancelled():
        raise RuntimeError("it raised CancelledError, though nobody had cancelled it")
    return task.result()


async def settled(future: asyncio.Future[Any], seconds: float) -> bool:
    """Wait for a future for at most so long, and return whether it is done: as `asyncio.wait`, at half the cost."""
    loop = future.get_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(seconds, wake)
    future.add_done_callback(wake)
    try:
        await waiter
    finally:
        timer.cancel()
        future.remove_done_callback(wake)
    return future.done()


async def uncancelled(awaitable: Awaitable[T]) -> T:
    """Await it; something that cancels itself is an error here, not a cancellation of whoever awaits it."""
    if sys.version_info < (3, 11):  # a task there does not know whether it was cancelled
        return await within(None, awaitable)
    try:
        return await awaitable
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("it raised CancelledError, though nobody had cancelled it") from None


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
        """Run a coroutine to its end and return its result. Interrupting the wait cancels it."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a blocking call on Axon's own event loop would wait for itself; await a Coro stub")
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

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
        shut_down(loop)

    @staticmethod
    def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process_id: int) -> None:
        if process_id == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=5)


background = BackgroundLoop()
"""The loop behind handles, duplex calls and workers that are served in the background."""


class ThreadLoop:
    """An event loop that a blocked thread drives by itself, which saves waking another one twice per call."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()  # starts and stops several times faster than uvloop's
        self._process_id = os.getpid()
        _thread_loops.add(self)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result. Interrupting the wait cancels it."""
        task = self._loop.create_task(coroutine)
        try:
            return self._loop.run_until_complete(task)
        finally:
            if not task.done():
                self._loop.run_until_complete(_cancel({task}))

    def close(self) -> None:
        """Let go of its connections."""
        if self._process_id == os.getpid() and not self._loop.is_closed():
            shut_down(self._loop)

    def __del__(self) -> None:  # the thread has ended
        self.close()

    @classmethod
    def of_this_thread(cls) -> ThreadLoop | None:
        """Return the calling thread's loop; None if the thread runs an event loop already."""
        if asyncio._get_running_loop() is not None:
            return None
        found: ThreadLoop | None = getattr(_of_thread, "loop", None)
        if found is None or found._process_id != os.getpid():  # a forked process must not share sockets
            found = _of_thread.loop = cls()
        return found


Runner: TypeAlias = BackgroundLoop | ThreadLoop
"""What runs coroutines for blocking code."""

_of_thread = threading.local()
_thread_loops: WeakSet[ThreadLoop] = WeakSet()


@atexit.register
def _close_thread_loops() -> None:
    for loop in list(_thread_loops):
        loop.close()


_closing: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def is_shutting_down() -> bool:
    """Return whether the running loop ends because its process does, so that work for later should be left alone."""
    return asyncio.get_running_loop() in _closing


def shut_down(loop: asyncio.AbstractEventLoop) -> None:
    """End a loop with its process: cancel what runs on it, let go of what it holds, close it."""
    _closing.add(loop)
    loop.run_until_complete(_cancel(asyncio.all_tasks(loop)))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def _cancel(tasks: set[asyncio.Task[Any]] | set[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
