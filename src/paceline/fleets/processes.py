"""Members as processes on this machine: they are started, their events are read, and they are ended."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from paceline import events
from paceline.axon import access
from paceline.devices.energy import PowerModel
from paceline.devices.machines import LiveMachine, Machine
from paceline.errors import PacelineError
from paceline.events import Emit, Event
from paceline.fleets.devices import EmulatedDevice
from paceline.fleets.live import ListenOptions, LiveFleet
from paceline.learning import checkpoints
from paceline.logs import FORMAT_VARIABLE
from paceline.topologies.base import COMMAND_WITHOUT_HOST, Finished, Host, Plan, Topology
from paceline.topologies.events import MemberListening

EMULATION = {"slowdown": 1.0, "down_mbit": math.inf, "up_mbit": math.inf, "latency_ms": 0.0}
"""How a device may be held back as a trial, and what it is when it is not."""

STOP_SIGNAL = signal.SIGUSR1
"""Signal on which the process of a member ends early, where no host tells it to: after its epoch, with the average."""

SUSPEND_SIGNAL = signal.SIGUSR2
"""Signal on which a device's process finishes what is open, and ends; SIGTERM ends it at once."""

_GRACE_SECONDS = 5.0
_NO_ERRORS = "no error output"
_IS_DEVICE = "PACELINE_IS_DEVICE"  # set in the processes of a fleet


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """How the process of one member is started.

    Attributes:
        options: options of ``paceline join``.
        listen: address to listen on, where members call each other.
        prefix: program that runs it, with its arguments; it must become that process, as ``nsenter`` does.
        num_threads: number of threads that PyTorch trains with.
        on_start: receives the id of the process.
        on_event: receives each event of this member, before others do.
    """

    name: str
    options: Sequence[str]
    listen: str = access.LOOPBACK
    prefix: Sequence[str] = ()
    num_threads: int = 1
    on_start: Callable[[int], None] = lambda process_id: None
    on_event: Emit = lambda event: None


class ProcessFleet(LiveFleet):
    """Base of the fleets whose members are processes on this machine, one for each spec.

    Args:
        listen: where the host listens; its token lets the processes in.
        make_machine: see `LiveFleet`.
    """

    def __init__(
        self, listen: ListenOptions, specs: Sequence[ProcessSpec], make_machine: Callable[[], Machine] = LiveMachine
    ) -> None:
        check_is_no_device()
        super().__init__(listen, make_machine)
        self._specs = specs

    @contextlib.asynccontextmanager
    async def members(self, host: Host, plan: Plan[Any], address: str) -> AsyncIterator[asyncio.Future[None]]:
        self.check(plan)
        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            members = _Members(host, plan, self._listen.token or "", Path(folder))
            is_over = False
            self.termination.roles.append(members)
            try:
                await members.start(self._specs, address)
                trouble = asyncio.ensure_future(members.watch())
                try:
                    yield trouble
                    is_over = True
                finally:
                    trouble.cancel()
                    await asyncio.wait((trouble,))
            finally:
                await members.end(of_themselves=is_over)


class _Members:
    """The processes of one run."""

    is_ending = False

    def __init__(self, host: Host, plan: Plan[Any], token: str, folder: Path) -> None:
        self._host = host
        self._plan = plan
        self._token = token
        self._folder = folder
        self._processes: dict[str, DeviceProcess] = {}
        self._listening: asyncio.Queue[MemberListening] = asyncio.Queue()
        self._is_suspended = False

    async def start(self, specs: Sequence[ProcessSpec], address: str) -> None:
        """Start all; they join the host or, where there is none, the first of them."""
        is_served = self._plan.topology.is_served
        allowed = [word for path in self._plan.import_paths for word in ("--allow", path)]
        if not is_served:
            self._job_file.write_bytes(msgspec.json.encode(self._plan.job.described()))
        first = ""
        for number, spec in enumerate(specs, 1):
            options = [*_used(spec.options, self._plan.topology), *allowed]
            if "--data" not in options:
                options += self._plan.device_options(number, len(specs))
            command = ["join", address] if is_served else self._command_without_host(spec, first)
            hear = functools.partial(self._hear, spec.name)
            key = self._folder / f"{spec.name}.key"
            process = await DeviceProcess.start(spec, [*command, "--json", *options], self._token, key, hear)
            self._processes[spec.name] = process
            spec.on_start(process.id)
            if not is_served and not first:
                first = await self._address_of(process)

    def _command_without_host(self, spec: ProcessSpec, first: str) -> list[str]:
        host = f"[{spec.listen}]" if ":" in spec.listen else spec.listen
        known = ["--peer", first] if first else []
        save = ["--save", str(self._model_file(spec.name))]
        if self._host.env.folder is not None:
            state = self._host.env.folder / checkpoints.FOLDER / f"{spec.name}.peer.safetensors"
            save += ["--state", str(state.absolute())]
        return [COMMAND_WITHOUT_HOST, str(self._job_file), "--listen", f"{host}:0", *known, *save]

    async def _address_of(self, process: DeviceProcess) -> str:
        """Wait until a process listens; raises `PacelineError` if it ends before."""
        listening, ended = asyncio.ensure_future(self._listening.get()), asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait((listening, ended), return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                await process.end(of_itself=True)
                raise PacelineError(f"a device's process ended before it could be called: {process.last_error_line}")
            return listening.result().address
        finally:
            listening.cancel()
            ended.cancel()

    async def watch(self) -> None:
        """Pass on who ends; fails once too few processes are left: the run could only wait for ever."""
        waiting = {asyncio.ensure_future(process.wait()): name for name, process in self._processes.items()}
        num_left = len(waiting)
        try:
            while waiting and (self._is_suspended or num_left >= self._host.min_left):
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for name in sorted(waiting.pop(one) for one in done):
                    finished = await self._result_of(name)
                    num_left -= finished is None
                    self._host.member_ended(name, finished)
            if self._is_suspended or num_left >= self._host.min_left:
                await asyncio.get_running_loop().create_future()  # all are done; from here, the host ends the run
        finally:
            for one in waiting:
                one.cancel()
        lines = [line for one in self._processes.values() if (line := one.last_error_line) != _NO_ERRORS]
        raise PacelineError(f"too few devices are left to go on; one ended: {lines[0] if lines else _NO_ERRORS}")

    async def _result_of(self, name: str) -> Finished | None:
        """Return how a member that ended took part to the end; None if it did not."""
        process = self._processes[name]
        await process.read_all()
        if self._plan.topology.is_served or process.has_failed:
            return None
        file = self._model_file(name)
        return Finished("its part is done", checkpoints.read(file) if file.exists() else None)

    async def suspend(self) -> None:
        """Have those that have no host finish what they have open, keep it, and end; others wait for their host."""
        if self._plan.topology.is_served or self._host.env.is_stopping():
            return
        self._is_suspended = True
        await asyncio.gather(*(process.suspend() for process in self._processes.values()))

    async def end(self, *, of_themselves: bool) -> None:
        """Let all end by themselves, or make them."""
        processes = self._processes.values()
        try:
            await asyncio.gather(*(process.end(of_itself=of_themselves) for process in processes))
        finally:  # also if that was interrupted
            for process in processes:
                process.kill()

    def _hear(self, name: str, event: Event) -> None:
        if isinstance(event, MemberListening):
            self._listening.put_nowait(event)
        self._host.hear(event)
        if self._host.env.is_stopping() and not self._plan.topology.is_served:
            self._processes[name].stop()  # where there is a host, that ends the run

    @property
    def _job_file(self) -> Path:
        return self._folder / "job.json"

    def _model_file(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"


def is_device() -> bool:
    """Return whether a fleet started this process: it ends it when all is done, or at once."""
    return _IS_DEVICE in os.environ


def check_is_no_device() -> None:
    """Raise `PacelineError` in a process that a fleet started: it loads the user's file, and must not start another."""
    if is_device():
        raise PacelineError(
            "a device that loads this file would start a fleet of its own: "
            'put what starts the run under if __name__ == "__main__":'
        )


def device_options(device: EmulatedDevice, *, patience_seconds: float, **emulation: float) -> list[str]:
    """Write a device, and how it is held back, as options of ``paceline join``; what is as by default is left out."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(device)}
    given = [(name, getattr(device, name)) for name in ("name", "max_shards", "data", "price", "device")]
    options = [text for name, value in given if value != defaults[name] for text in (_as_option(name), str(value))]
    options += _option_of("--emulate", emulation, EMULATION)
    if device.states:
        options += ["--states", ",".join(f"{state.name}={state.probability}" for state in device.states)]
        options += [] if device.are_states_known else ["--hide-states"]
    options += _option_of("--energy", msgspec.structs.asdict(device.power), msgspec.structs.asdict(PowerModel()))
    return [*options, "--patience", str(patience_seconds)]


def _used(options: Sequence[str], topology: Topology[Any]) -> list[str]:
    """Leave out what a fleet says of devices that does nothing in a job of this topology; fleets are for all."""
    unused = [_as_option(name) for name in ("max_shards", "price") if name not in topology.used_options]
    places = {place for option in unused if option in options for place in (options.index(option) + n for n in (0, 1))}
    return [text for place, text in enumerate(options) if place not in places]


def _as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _option_of(option: str, settings: Mapping[str, float], defaults: Mapping[str, float]) -> list[str]:
    """Write what differs from the defaults as one option; nothing if all is as by default."""
    changed = [f"{name}={value}" for name, value in settings.items() if value != defaults[name]]
    return [option, ",".join(changed)] if changed else []


class DeviceProcess:
    """The process of one member; its events come on its standard output."""

    def __init__(self, process: asyncio.subprocess.Process, emit: Emit) -> None:
        self._process = process
        self._is_stopped = False
        self._errors: deque[str] = deque(maxlen=20)
        self._reading = asyncio.gather(self._read_events(emit), self._read_errors())

    @classmethod
    async def start(cls, spec: ProcessSpec, command: Sequence[str], token: str, key: Path, emit: Emit) -> DeviceProcess:
        """Start a command of paceline, with a file for its device's key, and pass its events on."""

        def hear(event: Event) -> None:
            spec.on_event(event)
            emit(event)

        process = await asyncio.create_subprocess_exec(
            *(*spec.prefix, sys.executable, "-m", "paceline", *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The token is not for the list of processes.
            env={
                **os.environ,
                "PACELINE_TOKEN": token,
                FORMAT_VARIABLE: "text",  # what a device says as it fails is quoted
                "PACELINE_DEVICE_KEY": str(key),
                "OMP_NUM_THREADS": str(spec.num_threads),
                _IS_DEVICE: "1",
            },
            start_new_session=True,  # an interrupt at the keyboard is for the host's process, which ends them
        )
        return cls(process, hear)

    @property
    def id(self) -> int:
        """Id of the process."""
        return self._process.pid

    @property
    def has_failed(self) -> bool:
        """Whether it ended with an error."""
        return self._process.returncode != 0

    @property
    def last_error_line(self) -> str:
        """Last line of its standard error, or a word that there was none."""
        return self._errors[-1].removeprefix("paceline: ") if self._errors else _NO_ERRORS

    async def wait(self) -> None:
        """Wait until it has ended."""
        await self._process.wait()

    async def read_all(self) -> None:
        """Wait until all that it wrote is read, once it has ended."""
        await asyncio.shield(self._reading)

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

    async def suspend(self) -> None:
        """Have it finish what it has open, and wait until it has ended, and all that it wrote is read."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(SUSPEND_SIGNAL)
        await self.wait()
        await self.read_all()

    def stop(self) -> None:
        """Have it end early, with what was learned; only once it has reported an event, and so listens to that."""
        if not self._is_stopped:
            self._is_stopped = True
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(STOP_SIGNAL)

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
    """Read the lines of a stream, without those that are too long to be ours."""
    assert stream is not None
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # over the limit, and dropped
            continue
        if not line:
            return
        yield line
