"""Fleets as run folders keep them, so that an interrupted run finds its devices again."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from paceline.config import convert
from paceline.errors import ConfigError
from paceline.fleets.base import Fleet
from paceline.fleets.devices import EmulatedDevice
from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.testbed import TestbedDevice, TestbedFleet
from paceline.fleets.virtual import VirtualFleet


class _Local(msgspec.Struct, forbid_unknown_fields=True, tag="local"):
    devices: list[dict[str, Any]]
    options: list[str] = []
    threads: int = 1
    device: str = "cpu"


class _Virtual(msgspec.Struct, forbid_unknown_fields=True, tag="virtual"):
    devices: list[dict[str, Any]]
    is_time_only: bool = False
    device: str = "cpu"


class _Testbed(msgspec.Struct, forbid_unknown_fields=True, tag="testbed"):
    devices: list[dict[str, Any]]


_Kept: TypeAlias = _Local | _Virtual | _Testbed
_KINDS: dict[type[Any], tuple[type[Any], type[EmulatedDevice]]] = {
    _Local: (LocalFleet, LocalDevice),
    _Virtual: (VirtualFleet, VirtualDevice),
    _Testbed: (TestbedFleet, TestbedDevice),
}


def fleet_of(content: bytes, source: str) -> Fleet:
    """Make a fleet of the JSON of what `Fleet.described` returned; raises `ConfigError`.

    Args:
        source: the file that this is from, for errors.
    """
    try:
        kept = msgspec.json.decode(content, type=_Kept)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{source} cannot be read: {error}") from None
    kind, device = _KINDS[type(kept)]
    settings = {name: getattr(kept, name) for name in kept.__struct_fields__ if name != "devices"}
    places = enumerate(kept.devices, 1)
    fleet: Fleet = kind([convert(entry, device, f"{source}: device {number}") for number, entry in places], **settings)
    return fleet
