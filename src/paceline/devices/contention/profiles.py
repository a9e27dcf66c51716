"""Contention profile of a device: the model fitted to its profiling runs, as a JSON file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from paceline.checks import NotNegative, Positive, check_fields
from paceline.devices.contention.regression import SlowdownModel
from paceline.errors import ConfigError

MAX_FILE_BYTES = 1 << 16


class ContentionProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fast a device trains a model, alone and beside others.

    Attributes:
        version: version of the file format.
        model: name or import path of the model, for people.
        seconds_per_sample: t0, when nobody else uses the device.
        slowdown: RG.
        error_ratio: mean cross-validated error of predictions, as a ratio.
        num_observations: number of observations in the fit.
    """

    version: Literal[1]
    model: str
    seconds_per_sample: Positive
    slowdown: SlowdownModel
    error_ratio: NotNegative
    num_observations: int

    def __post_init__(self) -> None:
        check_fields(self)


def save_profile(profile: ContentionProfile, path: Path) -> None:
    """Write a profile, whole or not at all; raises `ConfigError` on failure."""
    text = msgspec.json.format(msgspec.json.encode(profile), indent=2) + b"\n"
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.write_bytes(text)
        os.replace(beside, path)
    except OSError as error:
        raise ConfigError(f"{path}: the profile cannot be written: {error.strerror}") from error


def load_profile(path: Path) -> ContentionProfile:
    """Read the profile in a file; raises `ConfigError` on failure."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_FILE_BYTES} bytes; a contention profile is not")
    try:
        return msgspec.json.decode(text, type=ContentionProfile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: no contention profile of version 1: {error}; see paceline contention") from error
