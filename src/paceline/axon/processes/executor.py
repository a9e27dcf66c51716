"""The process executor: functions in child processes, each itself a small Axon worker on loopback.

A child is started by command line and imports the function by name; calls reach it as they reach any worker, so
nothing is pickled. Cancelling a call kills its child: unlike a thread, a process can be stopped in mid-computation.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import secrets
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.axon import loops
from paceline.axon.client.caller import Caller, CallOptions, ValueStream
from paceline.axon.transports.base import Address
from paceline.axon.transports.http import HttpTransport
from paceline.axon.wire import UNLIMITED
from paceline.axon.worker.executors import Executor
from paceline.errors import ConfigError, ConnectionLost, RemoteError

START_SECONDS = 60.0
_CALL_SECONDS = 366 * 86400.0  # bounded by the caller, who cancels


@dataclass(eq=False)
class _Child:
    """A running child process and the way to call it."""

    process: asyncio.subprocess.Process
    caller: Caller

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()


class ProcessExecutor(Executor):
    """In a process of its own: for long computations that should use another core or may have to be killed.

    At most one per core at a time, kept for later calls. The function must be importable by name, or stand in the
    script that was started; the script is then run again in the child, where `axon.worker.init()` returns at once.
    """

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._max_processes = os.cpu_count() or 1
        self._slots = asyncio.Semaphore(self._max_processes)
        self._idle: dict[Callable[..., Any], list[_Child]] = {}
        self._children: set[_Child] = set()
        self._transport = HttpTransport()

    @staticmethod
    def check(function: Callable[..., Any]) -> None:
        _location_of(function)

    async def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        async with self._child(function) as child:
            return await child.caller.call("run", args, kwargs)

    async def stream(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        async with self._child(function) as child:
            items: ValueStream = await child.caller.call("run", args, kwargs)
            async for item in items:
                yield item

    async def close(self) -> None:
        for child in self._children:
            child.kill()
        for child in list(self._children):
            await child.process.wait()

    @contextlib.asynccontextmanager
    async def _child(self, function: Callable[..., Any]) -> AsyncIterator[_Child]:
        """Provide a child that serves this function, for one call; kept if the call ends, killed if it is given up."""
        async with self._slots:
            idle = self._idle.setdefault(function, [])
            while idle and idle[-1].process.returncode is not None:
                self._children.discard(idle.pop())
            child = idle.pop() if idle else await self._replace(function)
            try:
                yield child
            except RemoteError:
                idle.append(child)  # the function raised; the process is well
                raise
            except ConnectionLost as error:
                child.kill()  # should it still live
                status = await child.process.wait()
                self._children.discard(child)
                raise RuntimeError(
                    f"the process died while it ran {function.__qualname__}: {_death(status)}"
                ) from error
            except BaseException:
                child.kill()
                await asyncio.shield(child.process.wait())
                self._children.discard(child)
                raise
            else:
                idle.append(child)

    async def _replace(self, function: Callable[..., Any]) -> _Child:
        """Start a child; if there are as many as there may be, one that idles with another function goes."""
        while len(self._children) >= self._max_processes:
            unused = next(children for children in self._idle.values() if children).pop()
            unused.kill()
            await unused.process.wait()
            self._children.discard(unused)
        return await self._start(function)

    async def _start(self, function: Callable[..., Any]) -> _Child:
        token = secrets.token_hex(16)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "paceline.axon.processes.child", *_location_of(function), self.device),
            stdin=asyncio.subprocess.PIPE,  # its end tells the child that this process is gone
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(f"{token}\n".encode())
            line = await loops.within(START_SECONDS, process.stdout.readline())
            port = int(line)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            status = await asyncio.shield(process.wait())
            if not isinstance(error, (ValueError, OSError, asyncio.TimeoutError)):
                raise  # given up by the caller
            raise RuntimeError(f"the process for {function.__qualname__} did not start: {_death(status)}") from error
        address = Address("127.0.0.1", port)
        caller = Caller(self._transport, address, token, CallOptions(timeout_seconds=_CALL_SECONDS, limits=UNLIMITED))
        child = _Child(process, caller)
        self._children.add(child)
        return child


def _location_of(function: Callable[..., Any]) -> tuple[str, str]:
    """Return where a child finds a function: a module's name or a script's path, and the function's name in it."""
    module = inspect.getmodule(function)
    name = function.__qualname__
    if module is None or "<locals>" in name or inspect.ismethod(function):
        raise ConfigError(
            f"{name} cannot run in a process: it must be a function at the top of a module, so that a child finds it"
        )
    if hasattr(module, "__axon_file__"):  # loaded by path, and found by path again
        return str(module.__axon_file__), name
    if module.__spec__ is None:  # the script that was started
        return os.path.abspath(str(module.__file__)), name
    return module.__spec__.name, name  # also for python -m, where the module calls itself __main__


def _death(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"
