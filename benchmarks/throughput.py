"""Calls per second with many in flight: calls that finish within a window, by threads or by tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

_OPEN_SECONDS = 30.0


def of_threads(
    open_call: Callable[[], Callable[[bytes], bytes]],
    payload: bytes,
    num_in_flight: int,
    seconds: float,
    warmup_seconds: float,
) -> float:
    """Calls/s of as many threads as calls in flight; connections are opened before the clock starts."""
    window: list[float] = []

    def start_clock() -> None:
        window.append(perf_counter() + warmup_seconds)

    all_open = threading.Barrier(num_in_flight, start_clock, _OPEN_SECONDS)

    def work(_: int) -> int:
        try:
            call = open_call()
        except BaseException:
            all_open.abort()
            raise
        all_open.wait()
        begin = window[0]
        end = begin + seconds
        num_finished = 0
        while True:
            call(payload)
            now = perf_counter()
            if now >= end:
                return num_finished
            if now >= begin:
                num_finished += 1

    with ThreadPoolExecutor(num_in_flight) as threads:
        return sum(threads.map(work, range(num_in_flight))) / seconds


async def of_tasks(
    call: Callable[[bytes], Awaitable[bytes]], payload: bytes, num_in_flight: int, seconds: float, warmup_seconds: float
) -> float:
    """Calls/s of as many tasks as calls in flight; connections are opened during the warm-up."""
    begin = perf_counter() + warmup_seconds
    end = begin + seconds

    async def work() -> int:
        num_finished = 0
        while True:
            await call(payload)
            now = perf_counter()
            if now >= end:
                return num_finished
            if now >= begin:
                num_finished += 1

    return sum(await asyncio.gather(*(work() for _ in range(num_in_flight)))) / seconds
