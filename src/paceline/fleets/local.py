"""A fleet of processes on this machine, made unequal without root: by pauses, and by links that are held back."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

import msgspec

from paceline.devices.energy import PowerModel
from paceline.devices.states import DeviceState
from paceline.fleets.live import Door
from paceline.fleets.processes import Order, ProcessFleet, join_options, power_options, state_options

_PATIENCE_SECONDS = 10.0  # then a device whose orchestrator was killed ends, too: it cannot come back


class LocalDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process on this machine that plays a device.

    Attributes:
        slowdown: trains so many times slower than this machine can.
        down_mbit: the most it downloads, in Mbit/s; likewise `up_mbit`.
        latency_ms: added to each call, each way.
        data: a file with its own data (.npz), for federated jobs.
        price: that it asks for a shard, where work is paid for.
        states: what it is busy with besides, by real stressors.
        power: what it draws; its energy is told by that.
    """

    name: str
    slowdown: float = 1.0
    down_mbit: float = math.inf
    up_mbit: float = math.inf
    latency_ms: float = 0.0
    max_shards: int | None = None
    data: str | None = None
    price: float = 0.0
    states: tuple[DeviceState, ...] = ()
    are_states_known: bool = True
    power: PowerModel = PowerModel()

    def __post_init__(self) -> None:
        if not 1 <= self.slowdown < math.inf:
            raise ValueError(f"slowdown is {self.slowdown}; it must be at least 1")
        if not (self.down_mbit > 0 and self.up_mbit > 0 and 0 <= self.latency_ms < math.inf):
            raise ValueError(f"{self.name}: Mbit/s must be above 0 and latency_ms at least 0")

    def options(self) -> list[str]:
        """What ``paceline join`` is told."""
        names = [name for name in self.__struct_fields__ if name not in ("states", "are_states_known", "power")]
        states = state_options(self.states, are_known=self.are_states_known)
        return [*join_options(self, names), *states, *power_options(self.power)]


class LocalFleet(ProcessFleet):
    """Processes on this machine, one for each device."""

    def __init__(self, devices: Sequence[LocalDevice]) -> None:
        patience = ("--patience", str(_PATIENCE_SECONDS))
        orders = [Order(options=[*device.options(), *patience]) for device in devices]
        super().__init__(Door(port=0, token=secrets.token_urlsafe(16)), orders)
