"""Learners and peers as processes on this machine: they are started, their events are read, and they are ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from paceline import events
from paceline.axon.transports import Address
from paceline.devices.energy import PowerModel
from paceline.devices.states import DeviceState
from paceline.errors import ConfigError, PacelineError
from paceline.events import Emit, Event
from paceline.fleets.base import Launch
from paceline.fleets.live import Door, LiveFleet
from paceline.topologies.parallel import Conductor

_GRACE_SECONDS = 5.0
_IS_DEVICE = "PACELINE_IS_DEVICE"  # set in the processes of a fleet


@dataclass(frozen=True, kw_only=True)
class Order:
    """How the process of one learner is started.

    Attributes:
        options: of ``paceline join``.
        prefix: the program that runs it, with its arguments; it must end as that process, as ``nsenter`` does.
        num_threads: that PyTorch trains on.
        on_start: told the process's id.
        on_event: told of each event of this learner, before others are.
    """

    options: Sequence[str]
    prefix: Sequence[str] = ()
    num_threads: int = 1
    on_start: Callable[[int], None] = lambda process_id: None
    on_event: Emit = lambda event: None


class ProcessFleet(LiveFleet):
    """Base of the fleets whose learners are processes on this machine, one for each order.

    Args:
        door: with a token, by which the processes come in.
    """

    def __init__(self, door: Door, orders: Sequence[Order]) -> None:
        check_is_no_device()
        super().__init__(door)
        self._orders = orders

    @contextlib.asynccontextmanager
    async def devices(
        self, orchestrator: Conductor, launch: Launch[Any], address: Address
    ) -> AsyncIterator[asyncio.Future[None]]:
        def emit(event: Event) -> None:
            launch.emit(msgspec.structs.replace(event, at=orchestrator.now()))

        least = launch.min_learners
        if len(self._orders) < least:
            raise ConfigError(f"there are {len(self._orders)} devices on this machine; the job begins with {least}")
        assert self._door.token is not None
        processes: list[DeviceProcess] = []
        is_over = False
        try:
            for order in self._orders:
                command = command_for(order, launch, address)
                processes.append(await DeviceProcess.start(order, command, self._door.token, emit))
                order.on_start(processes[-1].id)
            trouble = asyncio.ensure_future(_until_too_few(processes, launch.min_left))
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


def command_for(order: Order, launch: Launch[Any], address: Address) -> list[str]:
    """The command of paceline by which a device takes part, without the order's own options."""
    allowed = [word for path in launch.import_paths for word in ("--allow-model", path)]
    has_data = "--data" in order.options
    return [launch.command, str(address), "--json", *allowed, *(() if has_data else launch.options)]


def check_is_no_device() -> None:
    """Raise `PacelineError` in a process that a fleet started: it loads the user's file, and must not start another."""
    if _IS_DEVICE in os.environ:
        raise PacelineError(
            "a device that loads this file would start a fleet of its own: "
            'put what starts the run under if __name__ == "__main__":'
        )


def join_options(device: msgspec.Struct, names: Iterable[str]) -> list[str]:
    """The fields of a device that are not as by default, as options of ``paceline join``, which has the same names."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(device)}
    changed = [name for name in names if getattr(device, name) != defaults[name]]
    return [text for name in changed for text in (f"--{name.replace('_', '-')}", str(getattr(device, name)))]


def state_options(states: Sequence[DeviceState], *, are_known: bool) -> list[str]:
    """The same for what a device does besides."""
    if not states:
        return []
    told = ",".join(f"{state.name}={state.probability}" for state in states)
    return ["--states", told, *([] if are_known else ["--hide-states"])]


def power_options(power: PowerModel) -> list[str]:
    """The same for what a device draws."""
    return join_options(power, power.__struct_fields__)


async def _until_too_few(processes: Sequence[DeviceProcess], least: int) -> None:
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


class DeviceProcess:
    """The process of one learner or peer; its events come on its standard output."""

    def __init__(self, process: asyncio.subprocess.Process, emit: Emit) -> None:
        self._process = process
        self._errors: deque[str] = deque(maxlen=20)
        self._reading = asyncio.gather(self._read_events(emit), self._read_errors())

    @classmethod
    async def start(cls, order: Order, command: Sequence[str], token: str, emit: Emit) -> DeviceProcess:
        """Start a command of paceline; its events are told."""

        def tell(event: Event) -> None:
            order.on_event(event)
            emit(event)

        process = await asyncio.create_subprocess_exec(
            *(*order.prefix, sys.executable, "-m", "paceline", *command, *order.options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The token is not for the list of processes.
            env={**os.environ, "PACELINE_TOKEN": token, "OMP_NUM_THREADS": str(order.num_threads), _IS_DEVICE: "1"},
            start_new_session=True,  # an interrupt at the keyboard is for the orchestrator, which ends them
        )
        return cls(process, tell)

    @property
    def id(self) -> int:
        """The process's."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The last line of its standard error."""
        return self._errors[-1] if self._errors else ""

    async def wait(self) -> None:
        """Wait until it has ended."""
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
