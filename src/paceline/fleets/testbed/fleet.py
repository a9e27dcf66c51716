"""Runs a job on a testbed: the host here, each member in its own namespace, cuts when they are due."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from paceline.errors import ConfigError
from paceline.events import Event
from paceline.fleets.base import Fleet
from paceline.fleets.devices import described, singles
from paceline.fleets.live import ListenOptions, run_live
from paceline.fleets.processes import ProcessFleet, ProcessSpec, check_is_no_device
from paceline.fleets.testbed import network, tools
from paceline.fleets.testbed.devices import TestbedDevice
from paceline.fleets.testbed.testbed import Testbed, build_testbed
from paceline.topologies.base import Environment, Host, Outcome, Plan
from paceline.topologies.events import PhaseStarted

_ROUNDING = 1e-6  # ten shares of 0.2 are two cores


class TestbedFleet(Fleet):
    """Devices that this machine emulates.

    Raises `ConfigError` where no testbed can be built, or one that would be slower than its file says.

    Args:
        devices: as in a fleet file.
    """

    devices: Sequence[TestbedDevice]

    def __init__(self, devices: Sequence[TestbedDevice]) -> None:
        check_is_no_device()
        tools.check()
        self.devices = singles(TestbedDevice, devices)
        if len(self.devices) > network.MOST_DEVICES:
            raise ConfigError(f"there are {len(self.devices)} devices; a testbed has {network.MOST_DEVICES} at most")
        wanted, num_cores = sum(device.cpu_share for device in self.devices), len(os.sched_getaffinity(0))
        if wanted > num_cores + _ROUNDING:
            raise ConfigError(
                f"cpu_share adds up to {wanted:g} over all devices, and this machine has {num_cores} cores: "
                "devices would slow each other down; give them smaller shares"
            )
        self._spare_cores = max(num_cores - wanted, 0.0)

    def described(self) -> dict[str, Any]:
        return {"type": "testbed", "devices": described(self.devices)}

    def run(self, plan: Plan[Any], env: Environment, started_at: float = 0.0) -> Outcome:
        return run_live(self._run(plan, env, started_at))

    async def _run(self, plan: Plan[Any], env: Environment, started_at: float) -> Outcome:
        self.check(plan)
        has_begun = asyncio.Event()

        def emit(event: Event) -> None:
            if isinstance(event, PhaseStarted) and event.round:
                has_begun.set()
            env.emit(event)

        # Building takes a moment of this loop's time; nothing else runs on it yet.
        with build_testbed(self.devices) as place:
            fleet = _FleetInPlace(place, self.devices, self._spare_cores / len(self.devices), has_begun)
            return await fleet.run_plan(plan, replace(env, emit=emit), started_at)


class _FleetInPlace(ProcessFleet):
    """The members of a testbed that is built.

    Args:
        spare_share: part of a core that each device may have in addition until it has joined. To load PyTorch takes
            seconds of a whole core, which are not emulated. All shares together are never more than there are cores.
        has_begun: set when the first round or epoch has begun.
    """

    def __init__(
        self, place: Testbed, devices: Sequence[TestbedDevice], spare_share: float, has_begun: asyncio.Event
    ) -> None:
        self._place = place
        self._all = devices
        self._has_begun = has_begun
        self._limited: set[int] = set()
        for number, device in enumerate(devices, 1):
            place.limit(number, device.cpu_share + spare_share)
        listen = ListenOptions(host=place.address, port=0, token=secrets.token_urlsafe(16))
        super().__init__(listen, [self._spec(number, device) for number, device in enumerate(devices, 1)])

    def _spec(self, number: int, device: TestbedDevice) -> ProcessSpec:
        def limit(event: Event) -> None:  # the first event comes when it has joined, before it measures itself
            if number not in self._limited:
                self._limited.add(number)
                self._place.limit(number, device.cpu_share)

        return ProcessSpec(
            name=device.name,
            listen=self._place.address_of(number),
            options=device.options(),
            prefix=self._place.prefix(number),
            num_threads=device.num_threads,
            on_start=lambda process_id: self._place.adopt(number, process_id),
            on_event=limit,
        )

    @contextlib.asynccontextmanager
    async def members(self, host: Host, plan: Plan[Any], address: str) -> AsyncIterator[asyncio.Future[None]]:
        async with super().members(host, plan, address) as too_few:
            cuts = asyncio.gather(*(self._cut(number, device) for number, device in enumerate(self._all, 1)))
            trouble = asyncio.ensure_future(_first_failure(too_few, cuts))
            try:
                yield trouble
            finally:
                trouble.cancel()
                cuts.cancel()
                await asyncio.wait((trouble, cuts))

    async def _cut(self, number: int, device: TestbedDevice) -> None:
        """Cut a device's link when that is due, and mend it: in time, or when the run is over, to let it end."""
        if device.cut_at_seconds is None:
            return
        await self._has_begun.wait()
        await asyncio.sleep(device.cut_at_seconds)
        self._place.cut(number)
        try:
            if device.mended_at_seconds is None:
                await asyncio.Event().wait()
            else:
                await asyncio.sleep(device.mended_at_seconds - device.cut_at_seconds)
        finally:
            self._place.mend(number)


async def _first_failure(*futures: asyncio.Future[Any]) -> None:
    await asyncio.gather(*futures)
