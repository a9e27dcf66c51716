"""A fleet of processes on this machine, made unequal without root: by pauses, and by links that are held back."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence

import msgspec

from paceline import events
from paceline.axon.transports import Address
from paceline.errors import PacelineError
from paceline.events import Emit
from paceline.fleets.base import Launch
from paceline.fleets.live import Door, LiveFleet
from paceline.topologies.parallel import Orchestrator

_GRACE_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0  # then a device whose orchestrator was killed ends, too: it cannot come back
_IS_DEVICE = "PACELINE_IS_DEVICE"  # set in the processes of a fleet


class LocalDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process on this machine that plays a device.

    Attributes:
        slowdown: trains so many times slower than this machine can.
        down_mbit: the most it downloads, in Mbit/s; likewise `up_mbit`.
        latency_ms: added to each call, each way.
        data: a file with its own data (.npz), for federated jobs.
    """

    name: str
    slowdown: float = 1.0
    down_mbit: float = math.inf
    up_mbit: float = math.inf
    latency_ms: float = 0.0
    max_shards: int | None = None
    data: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.slowdown < math.inf:
            raise ValueError(f"slowdown is {self.slowdown}; it must be at least 1")
        if not (self.down_mbit > 0 and self.up_mbit > 0 and 0 <= self.latency_ms < math.inf):
            raise ValueError(f"{self.name}: Mbit/s must be above 0 and latency_ms at least 0")

    def options(self) -> list[str]:
        """What ``paceline join`` is told."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        defaults = {field.name: field.default for field in msgspec.structs.fields(LocalDevice)}
        changed = {name: value for name, value in given.items() if value != defaults[name]}
        return [text for name, value in changed.items() for text in (f"--{name.replace('_', '-')}", str(value))]


class LocalFleet(LiveFleet):
    """Processes on this machine, one for each device."""

    def __init__(self, devices: Sequence[LocalDevice]) -> None:
        if _IS_DEVICE in os.environ:
            raise PacelineError(
                "a device that loads this file would start a fleet of its own: "
                'put what starts the run under if __name__ == "__main__":'
            )
        super().__init__(Door(port=0, token=secrets.token_urlsafe(16)))
        self._devices = devices

    @contextlib.asynccontextmanager
    async def devices(  # noqa: D102
        self, orchestrator: Orchestrator, launch: Launch, address: Address
    ) -> AsyncIterator[asyncio.Future[None]]:
        def emit(event: events.AnyEvent) -> None:
            launch.emit(msgspec.structs.replace(event, at=orchestrator.now()))

        import_path = launch.plan.job.model.import_path
        options = ["--patience", str(_PATIENCE_SECONDS), *(["--allow-model", import_path] if import_path else [])]
        processes: list[_Process] = []
        is_over = False
        try:
            for device in self._devices:
                processes.append(await _Process.start(str(address), [*device.options(), *options], self._token, emit))
            trouble = asyncio.ensure_future(_until_too_few(processes, launch.plan.job.min_learners))
            try:
                yield trouble
                is_over = True
            finally:
                trouble.cancel()
                await asyncio.wait((trouble,))
        finally:
            try:
                await asyncio.gather(*(process.end(of_itself=is_over) for process in processes))
            finally:  # also if that was interrupted
                for process in processes:
                    process.kill()

    @property
    def _token(self) -> str:
        assert self._door.token is not None
        return self._door.token


async def _until_too_few(processes: Sequence[_Process], least: int) -> None:
    """Fails once fewer than `least` processes are left: the run could only wait for ever."""
    ends = {asyncio.ensure_future(process.wait()) for process in processes}
    try:
        while len(ends) >= max(least, 1):
            _, ends = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
    told = next((process.last_words for process in processes if process.last_words), "without a word")
    raise PacelineError(f"too few devices are left to go on; one ended: {told}")


class _Process:
    """One learner's process; its events come on its standard output."""

    def __init__(self, process: asyncio.subprocess.Process, emit: Emit) -> None:
        self._process = process
        self._errors: deque[str] = deque(maxlen=20)
        self._reading = asyncio.gather(self._read_events(emit), self._read_errors())

    @classmethod
    async def start(cls, url: str, options: Sequence[str], token: str, emit: Emit) -> _Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "paceline", "join", url, "--json", *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # One core each, as devices have; the token is not for the list of processes.
            env={**os.environ, "PACELINE_TOKEN": token, "OMP_NUM_THREADS": "1", _IS_DEVICE: "1"},
            start_new_session=True,  # an interrupt at the keyboard is for the orchestrator, which ends them
        )
        return cls(process, emit)

    @property
    def last_words(self) -> str:
        """The last line of its standard error."""
        return self._errors[-1] if self._errors else ""

    async def wait(self) -> None:
        await self._process.wait()

    async def end(self, *, of_itself: bool) -> None:
        """Let it end by itself, if it knows that the run is over; or make it."""
        for stop in (None, self._process.terminate, self._process.kill)[not of_itself :]:
            with contextlib.suppress(ProcessLookupError):
                if stop is not None:
                    stop()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._process.wait(), _GRACE_SECONDS)
                break
        await self._reading

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:
                self._process.kill()

    async def _read_events(self, emit: Emit) -> None:
        async for line in _lines(self._process.stdout):
            with contextlib.suppress(msgspec.MsgspecError):  # a model of the user's may print, too
                emit(events.from_line(line))

    async def _read_errors(self) -> None:
        async for line in _lines(self._process.stderr):
            self._errors.append(line.decode(errors="replace").rstrip())


async def _lines(stream: asyncio.StreamReader | None) -> AsyncIterator[bytes]:
    """The lines of a stream, without those that are too long to be ours."""
    assert stream is not None
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # over the limit, and dropped
            continue
        if not line:
            return
        yield line
