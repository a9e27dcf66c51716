"""Options of commands that run a device: what it draws, and where its energy is told from."""

from __future__ import annotations

import functools
from typing import Annotated, TypeAlias

import typer

from paceline.devices.energy import METERS, MakeMeter, PowerModel
from paceline.errors import ConfigError
from paceline.spelling import suggest

Energy: TypeAlias = Annotated[
    str, typer.Option(help="Where this device's energy is told from: model, or codecarbon if that is installed.")
]
BusyWatts: TypeAlias = Annotated[float, typer.Option(help="This device draws so much per core that works.")]
IdleWatts: TypeAlias = Annotated[float, typer.Option(help="And so much all the time; 0 if it is on anyway.")]
JoulesPerByte: TypeAlias = Annotated[float, typer.Option(help="And so much to send or receive a byte.")]

DEFAULT = PowerModel()


def parse_power(busy_watts: float, idle_watts: float, joules_per_byte: float) -> PowerModel:
    """What the options say of a device; raises `ConfigError`."""
    try:
        return PowerModel(busy_watts=busy_watts, idle_watts=idle_watts, joules_per_byte=joules_per_byte)
    except ValueError as error:
        raise ConfigError(f"--{error}".replace("_", "-")) from None


def meter_maker(energy: str, power: PowerModel) -> MakeMeter:
    """What makes the meter that is asked for; raises `ConfigError` for one that there is not."""
    if energy not in METERS:
        raise ConfigError(f"--energy is {energy!r}; {suggest(energy, METERS)}")
    return functools.partial(METERS[energy], power)
