"""Peers as processes on this machine, made unequal without root."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from paceline.errors import ConfigError, PacelineError
from paceline.events import Event
from paceline.fleets.live import run_live
from paceline.fleets.local import LocalDevice
from paceline.fleets.peers import GossipLaunch, PeerFleet
from paceline.fleets.processes import DeviceProcess, Order, check_is_no_device, join_options, power_options
from paceline.learning import checkpoints
from paceline.topologies.events import PeerListening
from paceline.topologies.gossip import Concluded
from paceline.topologies.gossip.events import PeerEnded

_OPTIONS = ("name", "slowdown", "down_mbit", "up_mbit", "latency_ms", "data")


class LocalPeers(PeerFleet):
    """Processes on this machine, one for each device.

    Args:
        devices: those without data of their own share the job's.
        store_url: of the Redis server where figures are shared; None to share them by gossip.
    """

    clock = "live"

    def __init__(self, devices: Sequence[LocalDevice], *, store_url: str | None = None) -> None:
        check_is_no_device()
        self._devices = devices
        self._store = () if store_url is None else ("--store", store_url)

    def run(self, launch: GossipLaunch) -> Concluded:
        least, num_devices = launch.plan.job.min_peers, len(self._devices)
        if num_devices < least:
            raise ConfigError(f"there are {num_devices} devices; the job's min_peers is {least}")
        launch.plan.holdings(num_devices)  # tells now if there is too little data
        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            job = Path(folder) / "gossip.json"
            job.write_bytes(msgspec.json.encode(launch.plan.job.described()))
            return run_live(_Play(launch, self._devices, job, self._store).play())


class _Play:
    """The processes of one run."""

    def __init__(self, launch: GossipLaunch, devices: Sequence[LocalDevice], job: Path, options: Sequence[str]) -> None:
        self._launch = launch
        self._devices = devices
        self._job = job
        self._options = options
        self._models = launch.models or job.parent
        self._processes: list[DeviceProcess] = []
        self._addresses: asyncio.Queue[str] = asyncio.Queue()
        self._ended: list[PeerEnded] = []

    async def play(self) -> Concluded:
        """Start all, and wait until all have ended."""
        self._started_at = asyncio.get_running_loop().time()
        token = secrets.token_urlsafe(16)
        known: list[str] = []
        try:
            for number, device in enumerate(self._devices):
                self._processes.append(await self._start(number, device, known, token))
                if not known:  # all others join the first, and hear of each other
                    known.append(await self._address())
            await asyncio.gather(*(process.wait() for process in self._processes))
        finally:
            try:
                await asyncio.gather(*(process.end(of_itself=bool(self._ended)) for process in self._processes))
            finally:  # also if that was interrupted
                for process in self._processes:
                    process.kill()
        return self._concluded()

    async def _start(self, number: int, device: LocalDevice, known: Sequence[str], token: str) -> DeviceProcess:
        options = [*join_options(device, [name for name in _OPTIONS if name != "name"]), "--name", device.name]
        options += power_options(device.power)
        if device.data is None:
            options += ["--part", f"{number + 1}/{len(self._devices)}"]
        options += [word for address in known for word in ("--peer", address)]
        options += ["--save", str(self._file(device.name)), *self._options]
        command = ["gossip", str(self._job), "--listen", "127.0.0.1:0", "--json"]
        return await DeviceProcess.start(Order(options=options), command, token, self._hear)

    async def _address(self) -> str:
        """Where the process that was started last listens; raises `PacelineError` if it ends before."""
        process = self._processes[-1]
        listening, ended = asyncio.ensure_future(self._addresses.get()), asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait((listening, ended), return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                await process.end(of_itself=True)
                raise PacelineError(f"a peer ended before it began: {process.last_words or 'without a word'}")
            return listening.result()
        finally:
            listening.cancel()
            ended.cancel()

    def _hear(self, event: Event) -> None:
        if isinstance(event, PeerListening):
            self._addresses.put_nowait(event.address)
        if isinstance(event, PeerEnded):
            self._ended.append(event)
        at = asyncio.get_running_loop().time() - self._started_at
        self._launch.emit(msgspec.structs.replace(event, at=at))

    def _concluded(self) -> Concluded:
        saved = [ended for ended in self._ended if self._file(ended.learner).exists()]
        if not saved:
            told = next((process.last_words for process in self._processes if process.last_words), "without a word")
            raise PacelineError(f"no peer was left to end the run; one ended: {told}")
        best = max(saved, key=lambda ended: len(ended.averaged))
        state = checkpoints.read(self._file(best.learner))
        return Concluded(self._launch.plan.model.layout.pack(state), best.averaged)

    def _file(self, name: str) -> Path:
        return self._models / f"{name}.safetensors"
