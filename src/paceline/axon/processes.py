"""The process executor: functions in child processes, each itself a small Axon worker on loopback.

A child is started by command line and imports the function by name; calls reach it as they reach any worker, so
nothing is pickled. Cancelling a call kills its child: unlike a thread, a process can be stopped in mid-computation.

    python -m paceline.axon.processes MODULE_OR_SCRIPT FUNCTION DEVICE

is a child: it reads a token from standard input, prints its port, and ends when standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import secrets
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.axon import loops, modules
from paceline.axon.client.caller import Caller, CallOptions, ValueStream
from paceline.axon.transports.base import Address
from paceline.axon.transports.http import HttpTransport
from paceline.axon.wire import UNLIMITED
from paceline.axon.worker.executors import Executor, Function, Items
from paceline.axon.worker.worker import Worker
from paceline.errors import ConfigError, ConnectionLost, RemoteError

START_SECONDS = 60.0
_CALL_SECONDS = 366 * 86400.0  # bounded by the caller, who cancels


@dataclass(eq=False)
class _Child:
    process: asyncio.subprocess.Process
    caller: Caller


class ProcessExecutor(Executor):
    """In a process of its own: for long computations that should use another core or may have to be killed.

    At most one per core at a time, kept for later calls. The function must be importable by name, or stand in the
    script that was started; the script is then run again in the child, where `axon.worker.init()` returns at once.
    """

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._max_processes = os.cpu_count() or 1
        self._slots = asyncio.Semaphore(self._max_processes)
        self._idle: dict[Function, list[_Child]] = {}
        self._children: set[_Child] = set()
        self._transport = HttpTransport()

    @staticmethod
    def check(function: Function) -> None:
        _location_of(function)

    async def run(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        async with self._child(function) as child:
            return await child.caller.call("run", args, kwargs)

    async def stream(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Items:
        async with self._child(function) as child:
            items: ValueStream = await child.caller.call("run", args, kwargs)
            async for item in items:
                yield item

    async def close(self) -> None:
        await asyncio.gather(*map(self._remove, self._children))

    @contextlib.asynccontextmanager
    async def _child(self, function: Function) -> AsyncIterator[_Child]:
        """Provide a child that serves this function, for one call; kept if the call ends, killed if it is given up."""
        async with self._slots:
            idle = self._idle.setdefault(function, [])
            while idle and idle[-1].process.returncode is not None:
                self._children.discard(idle.pop())
            child = idle.pop() if idle else await self._start(function)
            try:
                yield child
            except RemoteError:
                idle.append(child)  # the function raised; the process is well
                raise
            except ConnectionLost as error:
                death = _death(await self._remove(child))
                raise RuntimeError(f"the process died while it ran {function.__qualname__}: {death}") from error
            except BaseException:
                await asyncio.shield(self._remove(child))
                raise
            else:
                idle.append(child)

    async def _remove(self, child: _Child) -> int:
        """Kill a child and return its exit status."""
        status = await _kill(child.process)
        self._children.discard(child)
        return status

    async def _start(self, function: Function) -> _Child:
        """Start a child; if there are as many as there may be, one that idles with another function goes."""
        while len(self._children) >= self._max_processes:
            await self._remove(next(children for children in self._idle.values() if children).pop())
        token = secrets.token_hex(16)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "paceline.axon.processes", *_location_of(function), self.device),
            stdin=asyncio.subprocess.PIPE,  # ends when this process is gone, and the child with it
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(f"{token}\n".encode())
            line = await loops.within(START_SECONDS, process.stdout.readline())
            port = int(line)
        except BaseException as error:
            status = await asyncio.shield(_kill(process))
            if not isinstance(error, (ValueError, OSError, asyncio.TimeoutError)):
                raise  # given up by the caller
            raise RuntimeError(f"the process for {function.__qualname__} did not start: {_death(status)}") from error
        address = Address("127.0.0.1", port)
        caller = Caller(self._transport, address, token, CallOptions(timeout_seconds=_CALL_SECONDS, limits=UNLIMITED))
        child = _Child(process, caller)
        self._children.add(child)
        return child


def serve_child(location: str, name: str, device: str) -> None:
    """Be a child: find the function, serve it, and end with the parent."""
    token = sys.stdin.readline().strip()
    port_pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the function prints must not mix with what the parent reads
    threading.Thread(target=end_with_parent, daemon=True).start()
    worker = Worker(device, limits=UNLIMITED)  # the parent has checked what comes from outside
    function: Any = functools.reduce(getattr, name.split("."), modules.load(location))
    worker.rpc(name="run")(function)

    async def serve() -> None:
        async with worker.serving(port=0, token=token) as address:
            print(address.port, file=port_pipe, flush=True)
            await asyncio.Event().wait()

    asyncio.run(serve())


def end_with_parent() -> None:
    """End the process when its standard input does, and so with the process that started it."""
    sys.stdin.read()
    os._exit(0)


def _location_of(function: Function) -> tuple[str, str]:
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


async def _kill(process: asyncio.subprocess.Process) -> int:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    return await process.wait()


def _death(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


if __name__ == "__main__":
    serve_child(*sys.argv[1:])
