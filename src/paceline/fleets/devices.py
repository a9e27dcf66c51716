"""What a fleet file says of a device, whatever emulates it."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from paceline.checks import Count, NotNegative, Positive, Spec, check_fields, fit
from paceline.devices.energy import PowerModel
from paceline.devices.lte_cell import Cell, rates
from paceline.devices.states import DeviceState, check_states
from paceline.errors import ConfigError
from paceline.topologies.sessions import NAME, NAME_RULE

_Device = TypeVar("_Device", bound="EmulatedDevice")


class EmulatedDevice(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device that is modelled or emulated, or `count` alike.

    Attributes:
        down_mbit: bandwidth from the orchestrator, in Mbit/s; likewise `up_mbit`.
        latency_ms: latency of each call, each way.
        cpu_share: part of a processor that training gets.
        max_shards: the most it takes in a round.
        price: price that it asks for a shard, where work is paid for.
        states: what it may be busy with besides; as each round begins for it, one is drawn.
        are_states_known: whether it knows how likely its states are; else it learns that from its rounds.
        distance_metres: distance to the base station of the cell that its rates are from; see `in_cell`.
        power: what it draws, by which its energy is counted.
    """

    name: str
    count: Count = 1
    down_mbit: Annotated[float, Meta(gt=0)] = math.inf
    up_mbit: Annotated[float, Meta(gt=0)] = math.inf
    latency_ms: NotNegative = 0.0
    cpu_share: Positive = 1.0
    max_shards: Count | None = None
    price: NotNegative = 0.0
    states: tuple[DeviceState, ...] = ()
    are_states_known: bool = True
    distance_metres: NotNegative | None = None
    power: PowerModel = PowerModel()

    def __post_init__(self) -> None:
        check_fields(self)
        if not NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}; {NAME_RULE}")
        check_states(self.states)

    @property
    def has_link(self) -> bool:
        """Whether it has a rate of its own, down or up."""
        return min(self.down_mbit, self.up_mbit) < math.inf

    def each(self: _Device) -> list[_Device]:
        """Return the single devices that it stands for, numbered if there are several."""
        names = [self.name] if self.count == 1 else [f"{self.name}-{number}" for number in range(1, self.count + 1)]
        return [msgspec.structs.replace(self, name=name, count=1) for name in names]


def singles(kind: type[_Device], devices: Sequence[_Device]) -> list[_Device]:
    """Return the single devices of all, which may be given as tables.

    Raises `ConfigError` for those of another kind, with a distance but no cell, or with a name that another one has.
    """
    try:
        checked: Sequence[_Device] = fit("devices", devices, list[kind])  # type: ignore[valid-type]
    except ValueError as error:
        raise ConfigError(str(error)) from None
    for device in checked:
        if device.distance_metres is not None and not device.has_link:
            raise ConfigError(f"device {device.name}: distance_metres is given, but there is no cell for it to be in")
    found = [single for device in checked for single in device.each()]
    check_names(found)
    return found


def check_names(devices: Iterable[EmulatedDevice]) -> None:
    """Raise `ConfigError` if single devices share a name."""
    for name, count in collections.Counter(device.name for device in devices).most_common(1):
        if count > 1:
            raise ConfigError(f"{count} devices are called {name!r}; names must differ")


def described(devices: Sequence[EmulatedDevice]) -> list[dict[str, Any]]:
    """Return devices as the tables of a fleet file, without what is as it is by default: JSON has no infinity."""
    return [
        {
            field.name: msgspec.to_builtins(getattr(device, field.name))
            for field in msgspec.structs.fields(device)
            if field.required or getattr(device, field.name) != field.default
        }
        for device in devices
    ]


def in_cell(cell: Cell, devices: Sequence[_Device]) -> list[_Device]:
    """Devices one by one, with the rates and distances that they have in a cell, which they share.

    Those without a `distance_metres` are placed at random, by the cell's seed and their names. Those that have rates of
    their own keep them, and are not in the cell.

    Raises:
        ConfigError: a device has only one rate, or both rates and a distance; or the cell cannot serve so many.
    """
    alone = [single for device in devices for single in device.each()]
    for device in alone:
        if device.has_link and math.inf in (device.down_mbit, device.up_mbit):
            raise ConfigError(f"device {device.name}: in a cell, it has down_mbit and up_mbit both or neither")
        if device.has_link and device.distance_metres is not None:
            raise ConfigError(f"device {device.name}: it has either rates or distance_metres in the cell, not both")
    inside = [device for device in alone if not device.has_link]
    distances = [_distance(cell, device) for device in inside]
    placed = iter(
        [
            msgspec.structs.replace(device, distance_metres=distance, **rate._asdict())
            for device, distance, rate in zip(inside, distances, rates(cell, distances), strict=True)
        ]
    )
    return [device if device.has_link else next(placed) for device in alone]


def _distance(cell: Cell, device: EmulatedDevice) -> float:
    return cell.place(device.name) if device.distance_metres is None else device.distance_metres
