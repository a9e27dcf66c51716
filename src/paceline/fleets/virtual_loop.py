"""An event loop on virtual time: whenever nothing is left to do, its clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from typing import Any

from paceline.fleets.caller_thread import on_interrupt

_RESOLUTION_SECONDS = 1e-9  # timers closer than this are due together


class Stalled(RuntimeError):
    """Everybody waits, and no timer is set that could wake anybody."""


class _Jump:
    """Stands in for a selector: instead of waiting for sockets, time passes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.is_interrupted = False

    def select(self, timeout: float | None) -> list[Any]:
        if self.is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt
        if timeout is None:
            raise Stalled("all tasks wait, and there is no timer that could wake one")
        self.now += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop whose time is its own, starting at 0 seconds. There are no sockets, and no other threads.

    Callbacks run in the order in which asyncio runs them on any loop, so the same program gives the same run.
    """

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Jump()
        self._clock_resolution = _RESOLUTION_SECONDS

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._selector.now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """As on any loop; a timer for the end of time is not set, or the clock would never arrive."""
        if when == math.inf:
            return asyncio.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """As `call_soon`; other threads would make the order a matter of chance."""
        if threading.get_ident() != self._thread_id:  # type: ignore[attr-defined]
            raise RuntimeError("a loop on virtual time cannot be called from another thread")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Refused: virtual time would not wait for a thread."""
        raise RuntimeError("a loop on virtual time has no threads; do the work in place")

    def jump(self, seconds: float) -> None:
        """Let time pass in which nothing can happen, as while a machine is suspended or waits for its disk."""
        self._selector.now += seconds

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` from the loop, once what it does at the moment is done; from any thread."""
        self._selector.is_interrupted = True

    def _process_events(self, event_list: list[Any]) -> None:
        """What asyncio would do with sockets that are ready; it comes after each jump."""
        # After half a year, the next number that a float can hold is farther away: a timer would never be due.
        self._clock_resolution = max(_RESOLUTION_SECONDS, math.ulp(self.time()))

    def _write_to_self(self) -> None:
        """What asyncio would do to wake the loop from another thread."""


def run(coroutine: Any) -> Any:
    """Run a coroutine on a virtual loop of its own; returns its result. Tasks that are left are cancelled."""
    loop = VirtualLoop()
    try:
        with on_interrupt(loop.interrupt):
            return loop.run_until_complete(coroutine)
    finally:
        try:
            loop.run_until_complete(_cancel_what_is_left(loop))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


async def _cancel_what_is_left(loop: VirtualLoop) -> None:
    left = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
