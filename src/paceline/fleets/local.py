"""A fleet of processes on this machine, made unequal without root: by pauses, and by links that are held back."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from paceline.fleets.devices import EmulatedDevice, singles
from paceline.fleets.live import ListenOptions
from paceline.fleets.processes import ProcessFleet, ProcessSpec, device_options

_PATIENCE_SECONDS = 10.0  # then a device whose host was killed ends, too: it cannot come back


class LocalDevice(EmulatedDevice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process on this machine that emulates a device, or `count` alike.

    Attributes:
        cpu_share: share of this machine's speed that it trains at, if below 1.
        slowdown: how many times slower still it trains.
        data: path, or import path, of its own data.
    """

    slowdown: Annotated[float, Meta(ge=1, le=1e9)] = 1.0
    data: str | None = None

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
    """

    devices: Sequence[LocalDevice]

    def __init__(self, devices: Sequence[LocalDevice], *, options: Sequence[str] = (), threads: int = 1) -> None:
        self.devices = singles(LocalDevice, devices)
        options = [*options, "--threads", str(threads)]
        specs = [
            ProcessSpec(name=device.name, options=[*device.options(), *options], num_threads=threads)
            for device in self.devices
        ]
        super().__init__(ListenOptions(port=0, token=secrets.token_urlsafe(16)), specs)
