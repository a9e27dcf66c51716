"""What a fleet file says of a device, whatever plays it."""

from __future__ import annotations

import math
from typing import TypeVar

import msgspec

from paceline.devices.energy import PowerModel
from paceline.devices.states import DeviceState, check_states
from paceline.topologies.parallel.roster import NAME, NAME_RULE

_Device = TypeVar("_Device", bound="EmulatedDevice")


class EmulatedDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device that is modelled or emulated, or `count` alike.

    Attributes:
        down_mbit: bandwidth from the orchestrator, in Mbit/s; likewise `up_mbit`.
        latency_ms: of each call, each way.
        cpu_share: of a processor that training gets.
        max_shards: the most it takes in a round.
        price: that it asks for a shard, where work is paid for.
        states: what it may be busy with besides; as each round begins for it, one is drawn.
        are_states_known: whether it knows how likely its states are; else it learns that from its rounds.
        power: what it draws; its energy is told by that.
    """

    name: str
    count: int = 1
    down_mbit: float = math.inf
    up_mbit: float = math.inf
    latency_ms: float = 0.0
    cpu_share: float = 1.0
    max_shards: int | None = None
    price: float = 0.0
    states: tuple[DeviceState, ...] = ()
    are_states_known: bool = True
    power: PowerModel = PowerModel()

    def __post_init__(self) -> None:
        for name in ("down_mbit", "up_mbit", "cpu_share", "count"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if not 0 <= self.latency_ms < math.inf:
            raise ValueError(f"latency_ms is {self.latency_ms}; it must be at least 0")
        if not NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}; {NAME_RULE}")
        if self.max_shards is not None and self.max_shards < 1:
            raise ValueError(f"max_shards is {self.max_shards}; it must be at least 1")
        if not 0 <= self.price < math.inf:
            raise ValueError(f"price is {self.price}; it must be at least 0")
        check_states(self.states)

    def each(self: _Device) -> list[_Device]:
        """As many devices of count 1, numbered if there are several."""
        names = [self.name] if self.count == 1 else [f"{self.name}-{number}" for number in range(1, self.count + 1)]
        return [msgspec.structs.replace(self, name=name, count=1) for name in names]
