"""What a measured system looks like: a server process, a client in this one, four things to ask of it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import uvloop

import processes
import throughput

SmallCall = Callable[[bytes], bytes]


class System(ABC):
    """One RPC system with its server, as a context manager: entering starts the server and connects to it.

    The module that defines a system must, run as `python -m MODULE serve PORT NUM_BYTES ...`, serve on that
    port of loopback (see `run_server`), holding the tensors of `make_tensors(NUM_BYTES)` for `pull`.

    Tensors go in and tensor memory comes out: what a system needs to turn one into the other is its cost.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions belong to the result."""
    measures_bulk: ClassVar[bool] = True
    """Whether calls/s, push, pull and memory are measured too, not the small call alone."""

    def __init__(self, num_payload_bytes: int) -> None:
        self.num_payload_bytes = num_payload_bytes
        self.port = processes.free_port()
        self.server_pid = 0
        self._cleanup = contextlib.ExitStack()

    def server_arguments(self) -> Sequence[str]:
        """Further arguments of the server process."""
        return ()

    def load(self) -> None:
        """Import what takes long, while the server starts."""

    def __enter__(self) -> System:
        with contextlib.ExitStack() as stack:
            num_bytes = self.num_payload_bytes if self.measures_bulk else 0
            arguments = ("serve", str(self.port), str(num_bytes), *self.server_arguments())
            process = stack.enter_context(processes.child(type(self).__module__, *arguments))
            self.server_pid = process.pid
            self.load()
            processes.wait_until_listening(process, self.port)
            self.connect()
            stack.callback(self.disconnect)
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @abstractmethod
    def connect(self) -> None:
        """Open the client."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the client; the server is ended afterwards."""

    @abstractmethod
    def call_small(self, payload: bytes) -> bytes:
        """One echo call."""

    @abstractmethod
    def time_small_calls(self, payload: bytes, num_calls: int) -> list[float]:
        """Seconds of each of `num_calls` echo calls made one after the other."""

    @abstractmethod
    def calls_per_second(self, payload: bytes, num_in_flight: int, seconds: float, warmup_seconds: float) -> float:
        """Echo calls finished per second with `num_in_flight` at any time."""

    @abstractmethod
    def push(self, tensors: Sequence[np.ndarray]) -> None:
        """Send the tensors, wait for a tiny answer and check it."""

    @abstractmethod
    def pull(self) -> Sequence[memoryview]:
        """Ask for the server's tensors; their memory, in one or more parts."""


class SyncSystem(System):
    """A system called by threads that wait. `open_call` gives each thread what it calls with."""

    def connect(self) -> None:
        self._call = self.open_call()

    @abstractmethod
    def open_call(self) -> SmallCall:
        """An echo call for the calling thread; may open a connection that `disconnect` closes."""

    def call_small(self, payload: bytes) -> bytes:
        return self._call(payload)

    def time_small_calls(self, payload: bytes, num_calls: int) -> list[float]:
        call, durations = self._call, []
        for _ in range(num_calls):
            start = perf_counter()
            call(payload)
            durations.append(perf_counter() - start)
        return durations

    def calls_per_second(self, payload: bytes, num_in_flight: int, seconds: float, warmup_seconds: float) -> float:
        return throughput.of_threads(self.open_call, payload, num_in_flight, seconds, warmup_seconds)


class AsyncSystem(System):
    """A system called by coroutines, on a loop of its own that runs while it is asked something."""

    new_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]] = staticmethod(uvloop.new_event_loop)

    def connect(self) -> None:
        self.loop = self.new_loop()
        self.run(self.connect_async())

    def disconnect(self) -> None:
        try:
            self.run(self.disconnect_async())
        finally:
            self.loop.close()

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Wait for it on the system's loop."""
        return self.loop.run_until_complete(awaitable)

    @abstractmethod
    async def connect_async(self) -> None:
        """Open the client."""

    @abstractmethod
    async def disconnect_async(self) -> None:
        """Close the client."""

    @abstractmethod
    async def call_small_async(self, payload: bytes) -> bytes:
        """One echo call."""

    def call_small(self, payload: bytes) -> bytes:
        return self.run(self.call_small_async(payload))

    def time_small_calls(self, payload: bytes, num_calls: int) -> list[float]:
        return self.run(self._time_small_calls(payload, num_calls))

    async def _time_small_calls(self, payload: bytes, num_calls: int) -> list[float]:
        call, durations = self.call_small_async, []
        for _ in range(num_calls):
            start = perf_counter()
            await call(payload)
            durations.append(perf_counter() - start)
        return durations

    def calls_per_second(self, payload: bytes, num_in_flight: int, seconds: float, warmup_seconds: float) -> float:
        return self.run(throughput.of_tasks(self.call_small_async, payload, num_in_flight, seconds, warmup_seconds))


def check_answer(answer: object, expected: object) -> None:
    """Raise unless the server answered a push with what it should have received."""
    if answer != expected:
        raise AssertionError(f"the server received {answer!r} instead of {expected!r}")


def run_server(serve: Callable[..., None]) -> None:
    """Entry of a server process: `serve PORT NUM_BYTES ...` calls `serve(port, num_bytes, ...)`."""
    if len(sys.argv) < 4 or sys.argv[1] != "serve":
        sys.exit("usage: python -m peers.NAME serve PORT NUM_BYTES")
    processes.exit_with_parent()
    serve(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
