"""A fleet on virtual time: the same roles, in one process, with modelled speeds and links.

Hours pass in seconds, and the same seed gives the same run, event by event.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from paceline.axon import loops
from paceline.axon.transports import CountedTransport
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.axon.transports.memory import MemoryNetwork
from paceline.devices.machines import Machine
from paceline.errors import ConfigError, DivergedError, PacelineError
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
    TurnedAway,
    run_in_place,
    serving,
)

_GARBAGE_OBJECTS = 50_000  # made between two looks for garbage: with thousands of devices, each look takes long
_NUM_CONTACTS = 2  # other members that each knows from the start, where there is no host to join


class VirtualFleet(Fleet):
    """Devices that are modelled, on a clock that jumps to the next event.

    Args:
        devices: as in a fleet file. The one that `is_server` is the host's, whose work else takes no time.
        is_time_only: leave the gradients out, for fleets of thousands.
        device: what the gradients of all are really computed on; see `find_accelerator`.
    """

    devices: Sequence[VirtualDevice]
    is_in_this_process = True

    def __init__(self, devices: Sequence[VirtualDevice], *, is_time_only: bool = False, device: str = "cpu") -> None:
        every = singles(VirtualDevice, devices)
        self.devices = [one for one in every if not one.is_server]
        servers = [one for one in every if one.is_server]
        if len(servers) > 1:
            raise ConfigError(f"{len(servers)} devices have is_server; a run has one")
        self._server = servers[0] if servers else None
        self._is_time_only = is_time_only
        self._every, self._device = every, device
        self._accelerator = find_accelerator(device)

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
                _VirtualRun(self.devices, plan, env, started_at, self._accelerator).run(self._server)
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
        self._models = SharedModels(is_trained=env.trains, accelerator=accelerator)
        self._failure: PacelineError | None = None
        self._too_slow: list[CannotKeepUp] = []

    async def run(self, server: VirtualDevice | None) -> Outcome:
        """Run the plan; `server` is what the host runs on, if its work takes time."""
        seed = self._plan.seed
        transport = self._network.host(HOST)
        machine: Machine = InstantMachine(self._models.accelerator)
        if server is not None:
            transport = self._network.host(HOST, server.link(seed))
            machine = ModelledMachine(server, transport.link, seed, self._models)
        host = self._plan.host(replace(self._env, machine=machine, now=self._now))
        async with serving(host, self._plan, HOST, transport=transport) as address:
            lives = [asyncio.ensure_future(self._live(number, host, address)) for number in range(len(self._devices))]
            try:
                await self._unless_too_few(host, lives, asyncio.ensure_future(host.run(address)))
                await host.drain()
            finally:
                for life in lives:
                    life.cancel()
                await asyncio.gather(*lives, return_exceptions=True)
        return host.outcome

    async def _live(self, number: int, host: Host, address: str) -> bool:
        """Live as a device, from when it joins; returns whether it took part to the end, rather than dying for good."""
        device = self._devices[number]
        await asyncio.sleep(device.joins_at_seconds)
        while True:
            finished, is_back_later = None, False
            try:
                taking_part = self._take_part(number, host, address)
                finished = await loops.within(_until(device.dies_at_seconds), taking_part)
            except asyncio.TimeoutError:
                is_back_later = device.returns_at_seconds is not None
            except ConfigError:
                raise
            except CannotKeepUp as error:  # the run goes on without it, as with a real device
                self._too_slow.append(error)
            except TurnedAway:
                pass
            except PacelineError as error:
                self._failure = error
            host.member_ended(device.name, finished)
            if not is_back_later:
                return finished is not None
            await asyncio.sleep(_until(device.returns_at_seconds) or 0.0)

    async def _take_part(self, number: int, host: Host, address: str) -> Finished | None:
        device, seed = self._devices[number], self._plan.seed * 1_000_003 + number
        transport = self._network.host(device.name, device.link(seed))
        node = Node(
            name=device.name,
            number=number,
            num_devices=len(self._devices),
            life=round(self._time() * 1e6) + 1,
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
        self, host: Host, lives: Sequence[asyncio.Future[bool]], running: asyncio.Future[None]
    ) -> None:
        """Wait for the host to end, unless a device fails by a mistake in the job, or too few are left.

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

        for life in lives:
            life.add_done_callback(stop)
        try:
            await running
        except asyncio.CancelledError:
            for life in lives:
                if life.done():
                    life.result()
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
