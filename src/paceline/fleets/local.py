"""A fleet of processes on this machine, made unequal without root: by pauses, and by links that are held back."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paceline.devices.machines import LiveMachine
from paceline.fleets.devices import EmulatedDevice, described, singles
from paceline.fleets.live import ListenOptions
from paceline.fleets.processes import ProcessFleet, ProcessSpec, device_options
from paceline.learning.accelerators import find_accelerator

_PATIENCE_SECONDS = 10.0  # then a device whose host was killed ends, too: it cannot come back


class LocalDevice(EmulatedDevice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process on this machine that emulates a device, or `count` alike.

    Attributes:
        cpu_share: share of this machine's speed that it trains at, if below 1.
        slowdown: how many times slower still it trains.
        data: path, or import path, of its own data.
        device: what it computes on, see `find_accelerator`; None for that of the fleet.
    """

    slowdown: Annotated[float, Meta(ge=1, le=1e9)] = 1.0
    data: str | None = None
    device: str | None = None

    def options(self) -> list[str]:
        """Write the device as options of ``paceline join``."""
        return device_options(
            self,
            patience_seconds=_PATIENCE_SECONDS,
            slowdown=self.slowdown / min(self.cpu_share, 1.0),
            down_mbit=self.down_mbit,
            up_mbit=self.up_mbit,
            latency_ms=self.latency_ms,
        )


class LocalFleet(ProcessFleet):
    """Processes on this machine, one for each device.

    Args:
        options: further options of ``paceline join``, for all devices.
        threads: number of threads that each trains with; with one, they hardly disturb each other.
        device: what the host computes on, and all devices without a `device` of their own; see `find_accelerator`.
    """

    devices: Sequence[LocalDevice]

    def __init__(
        self, devices: Sequence[LocalDevice], *, options: Sequence[str] = (), threads: int = 1, device: str = "cpu"
    ) -> None:
        machine = functools.partial(LiveMachine, accelerator=find_accelerator(device))
        self.devices = [_placed(one, device) for one in singles(LocalDevice, devices)]
        self._settings = {"options": list(options), "threads": threads, "device": device}
        options = [*options, "--threads", str(threads)]
        specs = [
            ProcessSpec(name=one.name, options=[*one.options(), *options], num_threads=threads) for one in self.devices
        ]
        super().__init__(ListenOptions(port=0, token=secrets.token_urlsafe(16)), specs, machine)

    def described(self) -> dict[str, Any]:
        return {"type": "local", "devices": described(self.devices), **self._settings}


def _placed(device: LocalDevice, default: str) -> LocalDevice:
    """Decide what a device computes on; raises `ConfigError` if this machine does not have it."""
    name = device.device or default
    find_accelerator(name)
    return msgspec.structs.replace(device, device=name)
