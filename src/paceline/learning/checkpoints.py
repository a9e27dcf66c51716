"""Parameters in files, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from paceline.errors import ConfigError, PacelineError
from paceline.learning.averaging import State

FOLDER = "checkpoints"
"""Folder of a run with its checkpoints."""

FINAL = "final"
"""Name of the checkpoint of what a run learned, where rounds have none of their own."""

BEST = "best"
"""Name of the checkpoint of the best round so far, which stays when those of its time are removed."""

NUM_KEPT = 3
"""Checkpoints that stay in a folder; older ones are removed."""

_FILE = re.compile(r"round-(\d{5,})\.safetensors")


def save(folder: Path, round: int, state: State, header: Mapping[str, str] | None = None) -> Path:
    """Write the parameters after a round; a crash leaves older files whole. Raises `PacelineError` on failure.

    Of older rounds, files named as `round_name` says are removed, whatever comes after the dot.
    """
    path = path_of(folder, round)
    write(path, state, header)
    for number in rounds(folder)[:-NUM_KEPT]:
        for old in folder.glob(f"{round_name(number)}.*"):
            old.unlink(missing_ok=True)
    return path


def write(path: Path, state: State, header: Mapping[str, str] | None = None) -> None:
    """Write parameters to a file, whole or not at all; raises `PacelineError` on failure.

    Args:
        header: texts to keep with them, by name.
    """
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(_apart(state), partial, None if header is None else dict(header))
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise PacelineError(f"{path} cannot be written: {error}") from error


def rounds(folder: Path) -> list[int]:
    """List the rounds after which the folder holds parameters, oldest first."""
    found = (_FILE.fullmatch(path.name) for path in folder.glob("round-*"))
    return sorted(int(match[1]) for match in found if match)


def load(folder: Path, round: int) -> State:
    """Read the parameters after a round; raises `ConfigError` if there are none, or if the file is damaged."""
    return read(path_of(folder, round))


def read(path: Path) -> State:
    """Read the parameters in a file; raises `ConfigError` if there are none, or if it is damaged."""
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{path}: cannot be read as a checkpoint: {error}") from error


def newest_in(path: Path) -> Path:
    """Return the file with what a run learned last: `path`, or one in its folder; raises `ConfigError` if none."""
    if path.is_file():
        return path
    folder = path / FOLDER
    final, kept = folder / f"{FINAL}.safetensors", rounds(folder)
    if final.is_file() or kept:
        return final if final.is_file() else path_of(folder, kept[-1])
    raise ConfigError(f"{path}: there is neither a file nor a run that learned something")


def read_header(path: Path) -> dict[str, str]:
    """Read the texts that are kept with the parameters in a file; raises `ConfigError` if it is damaged."""
    try:
        with safe_open(path, "pt") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{path}: cannot be read as a checkpoint: {error}") from error


def _apart(state: State) -> State:
    """Give each tensor its own memory: the format does not support tied weights."""
    seen: set[int] = set()
    apart: State = {}
    for name, tensor in state.items():
        memory = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone(memory_format=torch.contiguous_format) if memory in seen else tensor.contiguous()
        seen.add(memory)
    return apart


def round_name(round: int) -> str:
    """Return the name of a round's files, up to the dot."""
    return f"round-{round:05d}"


def path_of(folder: Path, round: int) -> Path:
    """Return the file with the parameters after a round."""
    return folder / f"{round_name(round)}.safetensors"
