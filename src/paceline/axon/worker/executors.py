"""Where a called function runs, which need not know it: on the event loop, or in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, TypeAlias

from paceline.axon import loops
from paceline.errors import ConfigError

Function: TypeAlias = Callable[..., Any]
Items: TypeAlias = AsyncGenerator[Any, None]

MAX_THREADS = 64
_STREAM_AHEAD = 16  # items a generator may be ahead of their sending

_cancelled: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("cancelled", default=None)


def is_cancelled() -> bool:
    """Return whether the caller has given up on the call this runs in; a long function in a thread should ask."""
    flag = _cancelled.get()
    return flag is not None and flag.is_set()


class Executor(ABC):
    """Runs functions for a worker. Cancelling the task that awaits stops the function where that is possible."""

    def __init__(self, device: str) -> None:
        self.device = device

    @staticmethod
    def check(function: Function) -> None:
        """Raise `ConfigError` if this function cannot run here."""

    @abstractmethod
    async def run(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the function and return what it returns, or raise what it raises."""

    @abstractmethod
    def stream(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Call a generator function and pass on what it yields; closing the iterator closes the generator."""

    async def close(self) -> None:
        """Release threads and processes."""


class LoopExecutor(Executor):
    """On the event loop: for ``async def``, and for functions too short to be worth a thread."""

    async def run(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        try:
            result = function(*args, **kwargs)
        except asyncio.CancelledError as error:
            raise _raisable(error) from error
        return await loops.uncancelled(result) if inspect.isawaitable(result) else result

    async def stream(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Items:
        items = function(*args, **kwargs)
        if isinstance(items, Iterator):
            with contextlib.closing(items):  # type: ignore[type-var]
                for item in items:
                    yield item
        else:
            async with contextlib.aclosing(items):
                async for item in items:
                    yield item


class ThreadExecutor(Executor):
    """In a thread: the loop goes on while the function computes.

    A thread cannot be stopped from outside; a cancelled function sees `is_cancelled()` and should return. Threads
    are daemons, so that one that never returns cannot keep the process from ending.
    """

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._slots = asyncio.Semaphore(MAX_THREADS)
        self._lock = threading.Lock()
        self._num_threads = 0
        self._num_idle = 0

    @staticmethod
    def check(function: Function) -> None:
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(f"{function.__qualname__} is async and runs on the loop; use executor='loop'")

    async def run(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def job() -> None:
            try:
                outcome = (future.set_result, function(*args, **kwargs))
            except BaseException as error:  # whatever it raises belongs to the caller
                outcome = (future.set_exception, _raisable(error))
            _call_soon(loop, _settle, future, *outcome)

        with self._cancelling():
            await self._submit(job)
            return await future

    async def stream(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Items:
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        ahead = threading.Semaphore(_STREAM_AHEAD)

        def job() -> None:
            try:
                with contextlib.closing(function(*args, **kwargs)) as generator:
                    for item in generator:
                        ahead.acquire()
                        if is_cancelled():
                            return
                        _call_soon(loop, items.put_nowait, ("item", item))
                _call_soon(loop, items.put_nowait, ("end", None))
            except BaseException as error:  # whatever it raises belongs to the caller
                _call_soon(loop, items.put_nowait, ("error", _raisable(error)))

        with self._cancelling() as flag:
            await self._submit(job)
            try:
                while True:
                    kind, item = await items.get()
                    if kind == "error":
                        raise item
                    if kind == "end":
                        return
                    ahead.release()
                    yield item
            finally:
                flag.set()
                ahead.release()  # a generator that waits for room sees the flag and ends

    async def close(self) -> None:
        for _ in range(self._num_threads):
            self._jobs.put(None)

    @contextlib.contextmanager
    def _cancelling(self) -> Iterator[threading.Event]:
        """Within, a new job sees a flag of its own, set when the block is left by cancellation."""
        flag = threading.Event()
        token = _cancelled.set(flag)
        try:
            yield flag
        except asyncio.CancelledError:
            flag.set()
            raise
        finally:
            with contextlib.suppress(ValueError):  # an async generator may be closed from another context
                _cancelled.reset(token)

    async def _submit(self, job: Callable[[], None]) -> None:
        await self._slots.acquire()  # given back when the job ends, even if nobody waits for it any more
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()

        def job_and_release() -> None:
            context.run(job)
            _call_soon(loop, self._slots.release)

        with self._lock:
            is_idle = self._num_idle > 0
            self._num_idle -= is_idle  # taken: no other job may count on that thread
            self._num_threads += not is_idle
        if not is_idle:
            threading.Thread(target=self._work, name=f"axon-call-{self._num_threads}", daemon=True).start()
        self._jobs.put(job_and_release)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # holds the arguments of the call
            with self._lock:
                self._num_idle += 1


def _settle(future: asyncio.Future[Any], setter: Callable[[Any], None], value: Any) -> None:
    if not future.done():
        setter(value)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *args: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(function, *args)


def _raisable(error: BaseException) -> Exception:
    """Turn what a call failed with into something a future and a task can hold (`SystemExit` they cannot)."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
