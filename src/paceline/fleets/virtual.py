"""A fleet on virtual time: the same roles, in one process, with modelled speeds and links.

Hours pass in seconds, and the same seed gives the same run, event by event.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from paceline.axon import loops
from paceline.axon.transports import CountedTransport
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.axon.transports.links import LinkInUse
from paceline.axon.transports.memory import MemoryNetwork
from paceline.devices.machines import Machine
from paceline.errors import ConfigError, DiskError, DivergedError, PacelineError, TurnedAway
from paceline.fleets import virtual_loop
from paceline.fleets.base import HOST, Fleet
from paceline.fleets.devices import described, singles
from paceline.fleets.modelled import InstantMachine, ModelledMachine, SharedModels, VirtualDevice
from paceline.learning.accelerators import Accelerator, find_accelerator
from paceline.topologies.base import (
    CannotKeepUp,
    Contact,
    DeviceOptions,
    Environment,
    Finished,
    Host,
    Node,
    Outcome,
    Plan,
    run_in_place,
    serving,
)

_GARBAGE_OBJECTS = 50_000  # made between two looks for garbage: with thousands of devices, each look takes long
_NUM_CONTACTS = 2  # other members that each knows from the start, where there is no host to join


class RunningFleet:
    """A virtual fleet while it runs, for a script that has things happen to it.

    Attributes:
        address: where the host is called; empty if it cannot be.
        network: the network, for further hosts on it.
    """

    def __init__(self, network: MemoryNetwork) -> None:
        self.address = ""
        self.network = network
        self._links: dict[str, LinkInUse] = {}
        self._lives: dict[str, asyncio.Task[Any]] = {}
        self._away: dict[str, float | None] = {}

    def link(self, name: str) -> LinkInUse | None:
        """Return the link of a device, or of the host (`HOST`), to cut or slow down; None if it is not there."""
        return self._links.get(name)

    def kill(self, name: str, back_after_seconds: float | None) -> bool:
        """Let a device vanish without a word, and join again later, if it is to; False if it is not there."""
        life = self._lives.get(name)
        if life is None or life.done() or name in self._away:
            return False
        self._away[name] = back_after_seconds
        life.cancel()
        return True

    @contextlib.contextmanager
    def living(self, name: str, life: asyncio.Task[Any]) -> Iterator[None]:
        """Note that a device is there while the block runs."""
        self._lives[name] = life
        try:
            yield
        finally:
            del self._lives[name]
            self._links.pop(name, None)

    def connected(self, name: str, link: LinkInUse) -> None:
        """Note over which link a device or the host is reached."""
        self._links[name] = link

    def was_killed(self, name: str) -> bool:
        """Return whether a device that ends was killed by `kill`."""
        return name in self._away

    def back_after(self, name: str) -> float | None:
        """Return the seconds after which a device that was killed comes back; None for never."""
        return self._away.pop(name)


Script: TypeAlias = Callable[[RunningFleet], Awaitable[None]]
"""Runs beside a virtual fleet, on its clock, and has things happen to it; what it raises ends the run."""


class VirtualFleet(Fleet):
    """Devices that are modelled, on a clock that jumps to the next event.

    Args:
        devices: as in a fleet file. The one that `is_server` is the host's, whose work else takes no time.
        is_time_only: leave the gradients out, for fleets of thousands.
        device: what the gradients of all are really computed on; see `find_accelerator`.
        script: has things happen that the fields of devices cannot say, such as links that are cut and mended.
    """

    devices: Sequence[VirtualDevice]
    is_in_this_process = True

    def __init__(
        self,
        devices: Sequence[VirtualDevice],
        *,
        is_time_only: bool = False,
        device: str = "cpu",
        script: Script | None = None,
    ) -> None:
        every = singles(VirtualDevice, devices)
        self.devices = [one for one in every if not one.is_server]
        servers = [one for one in every if one.is_server]
        if len(servers) > 1:
            raise ConfigError(f"{len(servers)} devices have is_server; a run has one")
        self._server = servers[0] if servers else None
        self._is_time_only = is_time_only
        self._every, self._device = every, device
        self._accelerator = find_accelerator(device)
        self._script = script

    def check(self, plan: Plan[Any]) -> None:
        super().check(plan)
        for device in self.devices:
            for name in plan.job_names:
                device.speed(name)  # raises if there is none
        if self._is_time_only and plan.needs_gradients:
            raise ConfigError("--time-only: the messages of such a job are made of its gradients; leave it out")

    def described(self) -> dict[str, Any]:
        settings = {"is_time_only": self._is_time_only, "device": self._device}
        return {"type": "virtual", "devices": described(self._every), **settings}

    def run(self, plan: Plan[Any], env: Environment, started_at: float = 0.0) -> Outcome:
        self.check(plan)
        torch.manual_seed(plan.seed)  # dropout and the like draw from there
        num_threads, thresholds = torch.get_num_threads(), gc.get_threshold()
        torch.set_num_threads(1)  # faster for small models; and sums come out the same on any number of cores
        gc.set_threshold(_GARBAGE_OBJECTS, *thresholds[1:])
        gc.freeze()
        env = replace(
            env, clock="virtual", run_blocking=run_in_place, trains=not self._is_time_only, rng=random.Random(plan.seed)
        )
        try:
            outcome: Outcome = virtual_loop.run(
                _VirtualRun(self.devices, plan, env, started_at, self._accelerator).run(self._server, self._script)
            )
        finally:
            gc.collect()  # what a run leaves refers to itself, holds all models, and would stay for long
            gc.unfreeze()
            gc.set_threshold(*thresholds)
            torch.set_num_threads(num_threads)
        return outcome


class _VirtualRun:
    """One run on virtual time."""

    def __init__(
        self,
        devices: Sequence[VirtualDevice],
        plan: Plan[Any],
        env: Environment,
        started_at: float,
        accelerator: Accelerator,
    ) -> None:
        self._devices = devices
        self._plan = plan
        self._env = env
        self._started_at = started_at
        self._network = MemoryNetwork()
        self._running = RunningFleet(self._network)
        self._models = SharedModels(is_trained=env.trains, accelerator=accelerator)
        self._failure: PacelineError | None = None
        self._too_slow: list[CannotKeepUp] = []

    async def run(self, server: VirtualDevice | None, script: Script | None) -> Outcome:
        """Run the plan; `server` is what the host runs on, if its work takes time."""
        seed = self._plan.seed
        transport = self._network.host(HOST)
        machine: Machine = InstantMachine(self._models.accelerator)
        if server is not None:
            transport = self._network.host(HOST, server.link(seed))
            machine = ModelledMachine(server, transport.link, seed, self._models)
        self._running.connected(HOST, transport.link)
        host = self._plan.host(replace(self._env, machine=machine, now=self._now))
        async with serving(host, self._plan, HOST, transport=transport) as address:
            lives = [asyncio.ensure_future(self._live(number, host, address)) for number in range(len(self._devices))]
            self._running.address = address
            beside = [] if script is None else [asyncio.ensure_future(script(self._running))]
            try:
                await self._unless_too_few(host, lives, beside, asyncio.ensure_future(host.run(address)))
                await host.drain()
            finally:
                for life in (*lives, *beside):
                    life.cancel()
                await asyncio.gather(*lives, *beside, return_exceptions=True)
        return host.outcome

    async def _live(self, number: int, host: Host, address: str) -> bool:
        """Live as a device, from when it joins; returns whether it took part to the end, rather than dying for good."""
        device = self._devices[number]
        await asyncio.sleep(device.joins_at_seconds)
        while True:
            finished, back_after = None, None
            taking_part = asyncio.ensure_future(self._take_part(number, host, address))
            try:
                with self._running.living(device.name, taking_part):
                    finished = await loops.within(_until(device.dies_at_seconds), taking_part)
            except asyncio.TimeoutError:
                back_after = None if device.returns_at_seconds is None else _until(device.returns_at_seconds) or 0.0
            except (ConfigError, DiskError):  # no fault of the device: the run cannot go on
                raise
            except CannotKeepUp as error:  # the run goes on without it, as with a real device
                self._too_slow.append(error)
            except TurnedAway:
                pass
            except PacelineError as error:
                self._failure = error
            except RuntimeError:
                if not self._running.was_killed(device.name):
                    raise
                back_after = self._running.back_after(device.name)
            host.member_ended(device.name, finished)
            if back_after is None:
                return finished is not None
            await asyncio.sleep(back_after)

    async def _take_part(self, number: int, host: Host, address: str) -> Finished | None:
        device, seed = self._devices[number], self._plan.seed * 1_000_003 + number
        transport = self._network.host(device.name, device.link(seed))
        self._running.connected(device.name, transport.link)
        node = Node(
            name=device.name,
            number=number,
            num_devices=len(self._devices),
            life=round(self._now() * 1e6) + 1,  # of the run: it grows also when that goes on
            contacts=[Contact(address)] if address else self._contacts(number),
            transport=CountedTransport(transport),
            options=DeviceOptions(max_shards=device.max_shards, price=device.price),
            clock=self._env.clock,
            emit=host.hear,
            now=self._now,
            run_blocking=self._env.run_blocking,
            is_stopping=self._env.is_stopping,
            machine=ModelledMachine(device, transport.link, seed, self._models),
            trains=self._env.trains,
            rng=random.Random(seed),
        )
        member = self._plan.member(node, host)
        async with serving(member, self._plan, device.name, transport=transport, port=DEFAULT_PORT) as own:
            try:
                if device.leaves_at_seconds is None:
                    return await member.run(own)
                return await loops.within(_until(device.leaves_at_seconds), member.run(own))
            except asyncio.TimeoutError:
                await member.leave()
                return None
            except DivergedError:
                await member.leave()
                raise
            except asyncio.CancelledError:
                transport.link.cut()  # it vanishes without a word
                raise

    def _contacts(self, number: int) -> list[Contact]:
        """Return the first devices that are there now, besides this one."""
        now = self._time()
        there = [device.name for device in self._devices if device.is_there(now)]
        others = [name for name in there if name != self._devices[number].name][:_NUM_CONTACTS]
        return [Contact(f"http://{name}:{DEFAULT_PORT}") for name in others]

    async def _unless_too_few(
        self,
        host: Host,
        lives: Sequence[asyncio.Future[bool]],
        beside: Sequence[asyncio.Future[None]],
        running: asyncio.Future[None],
    ) -> None:
        """Wait for the host to end, unless a device fails by a mistake in the job, a script fails, or too few are left.

        The mistake is raised; with too few, the host would wait for ever, which is a `PacelineError`.
        """
        num_left = len(lives)

        def stop(life: asyncio.Future[bool]) -> None:
            nonlocal num_left
            if life.cancelled():
                return
            num_left -= life.exception() is not None or not life.result()
            if life.exception() is not None or num_left < host.min_left:
                running.cancel()

        def stop_at_failure(script: asyncio.Future[None]) -> None:
            if not script.cancelled() and script.exception() is not None:
                running.cancel()

        for life in lives:
            life.add_done_callback(stop)
        for script in beside:
            script.add_done_callback(stop_at_failure)
        try:
            await running
        except asyncio.CancelledError:
            ended: list[asyncio.Future[Any]] = [*beside, *lives]
            for one in ended:
                if one.done():
                    one.result()
            if num_left >= host.min_left:
                raise
            why = "the others died, left or were turned away"
            if self._failure is not None:
                why = f"one ended with: {self._failure}"
            elif self._too_slow:
                why = str(min(self._too_slow, key=lambda error: error.least_seconds))
            kind = DivergedError if isinstance(self._failure, DivergedError) else PacelineError
            raise kind(
                f"{num_left} of {len(lives)} devices are left, and the run needs {host.min_left}: {why}"
            ) from None
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _now(self) -> float:
        return self._started_at + asyncio.get_running_loop().time()


def _until(at_seconds: float | None) -> float | None:
    """Return the seconds until a moment of virtual time; None if it is past, or was never set."""
    now = asyncio.get_running_loop().time()
    return at_seconds - now if at_seconds is not None and at_seconds > now else None
