"""Fleet files: the devices that a simulation models, or a testbed emulates."""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from paceline.config import check_keys, convert, read_tables, table_named
from paceline.devices.lte_cell import Cell
from paceline.errors import ConfigError
from paceline.fleets.devices import EmulatedDevice, check_names, in_cell
from paceline.fleets.local import LocalDevice
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.testbed.devices import TestbedDevice
from paceline.learning.sources import is_import

MAX_DEVICES = 100_000
"""Most devices in a fleet file, with their counts."""

_COMMANDS: dict[type[EmulatedDevice], str] = {VirtualDevice: "simulate", TestbedDevice: "testbed", LocalDevice: "run"}
_OWN_SPEED = ("samples_per_second", "speed_noise", "link_noise")  # of modelled devices; real ones have their own
_NOT_NEEDED: dict[type[EmulatedDevice], tuple[str, ...]] = {
    VirtualDevice: (),
    TestbedDevice: _OWN_SPEED,
    LocalDevice: _OWN_SPEED,
}
D = typing.TypeVar("D", bound=EmulatedDevice)


def load_fleet(path: Path, kind: type[D]) -> list[D]:
    """Return the devices in a fleet file; if it has a cell, with their rates there; raises `ConfigError`."""
    tables = read_tables(path)
    check_keys(tables, ("device", "cell"), str(path), "table")
    entries = tables.get("device")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: there is no [[device]]; a fleet has at least one")
    devices: list[D] = []
    for number, entry in enumerate(entries, 1):
        source = f"{path}: device {number}"
        devices.append(convert(_keys_for(kind, entry, source), kind, source))
    num_devices = sum(device.count for device in devices)
    if num_devices > MAX_DEVICES:
        raise ConfigError(f"{path}: there are {num_devices} devices, by their counts; allowed: {MAX_DEVICES}")
    try:
        check_names(single for device in devices for single in device.each())
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return [_with_data_beside(path, device) for device in _placed(tables, devices, path)]


def _with_data_beside(path: Path, device: D) -> D:
    """Find a device's own data relative to the fleet file."""
    data = getattr(device, "data", None)
    if data is None or (is_import(data) and not data.rpartition(":")[0].endswith(".py")):
        return device
    return msgspec.structs.replace(device, data=os.path.abspath(path.parent / data))


def _placed(tables: Mapping[str, Any], devices: list[D], path: Path) -> list[D]:
    """Give devices their rates in the cell of the fleet file, if it has one."""
    if "cell" in tables:
        cell = convert(table_named(tables, "cell", str(path)), Cell, f"{path}: [cell]")
        try:
            return in_cell(cell, devices)
        except ConfigError as error:
            raise ConfigError(f"{path}: [cell]: {error}") from error
    for number, device in enumerate(devices, 1):
        if device.distance_metres is not None:
            raise ConfigError(
                f"{path}: device {number}: distance_metres is {device.distance_metres}, but there is no [cell]"
            )
    return devices


def _keys_for(kind: type[EmulatedDevice], entry: Any, source: str) -> Any:
    """Leave out the keys that a device does not need; one that it cannot heed is an error."""
    if not isinstance(entry, dict):
        return entry
    for other, command in _COMMANDS.items():
        for key in entry:
            if key in other.__struct_fields__ and key not in (*kind.__struct_fields__, *_NOT_NEEDED[kind]):
                raise ConfigError(f"{source}: {key} is for paceline {command}; paceline {_COMMANDS[kind]} cannot do it")
    return {key: value for key, value in entry.items() if key not in _NOT_NEEDED[kind]}
