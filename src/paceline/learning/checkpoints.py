"""Parameters in safetensors files, written whole or not at all, with a digest by which damage is noticed."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from paceline import files
from paceline.errors import ConfigError, DiskError, in_one_line
from paceline.learning.averaging import State

FOLDER = "checkpoints"
"""Folder of a run with its checkpoints."""

FINAL = "final"
"""Name of the checkpoint of what a run learned, where rounds have none of their own."""

BEST = "best"
"""Name of the checkpoint of the best round so far, which stays when those of its time are removed."""

NUM_KEPT = 3
"""Checkpoints that stay in a folder; older ones are removed."""

_DIGEST = "blake2b"  # name of the text in the header
_FILE = re.compile(r"round-(\d{5,})\.safetensors")


class Checkpoint(NamedTuple):
    """What a file holds: parameters, and the texts in its header."""

    state: State
    header: dict[str, str]


def save(folder: Path, round: int, state: State, header: Mapping[str, str] | None = None) -> Path:
    """Write the parameters after a round; a crash leaves older files whole. Raises `DiskError` on failure.

    Of older rounds, files named as `round_name` says are removed, whatever comes after the dot.
    """
    path = path_of(folder, round)
    write(path, state, header)
    remove(folder, rounds(folder)[:-NUM_KEPT])
    return path


def remove(folder: Path, numbers: Iterable[int]) -> None:
    """Remove all files of some rounds; raises `DiskError` on failure."""
    for number in numbers:
        for path in folder.glob(f"{round_name(number)}.*"):
            try:
                files.disk().remove(path)
            except OSError as error:
                raise DiskError(f"{path} cannot be removed: {files.reason_of(error)}") from error


def write(path: Path, state: State, header: Mapping[str, str] | None = None) -> None:
    """Write parameters to a file, whole or not at all; raises `DiskError` on failure.

    Args:
        header: texts to keep with them, by name.
    """
    apart, texts = _apart(state), dict(header or {})
    texts[_DIGEST] = _digest(apart, texts)

    def fill(partial: Path) -> None:
        try:
            save_file(apart, partial, texts)
        except SafetensorError as error:
            raise _as_os_error(error) from error

    try:
        files.make_folder(path.parent)
        files.replace(path, fill)
    except OSError as error:
        raise DiskError(f"{path} cannot be written: {files.reason_of(error)}") from error


def _as_os_error(error: SafetensorError) -> OSError:
    """Translate what the library raises for a disk that fails, by the number that it quotes."""
    found = re.search(r"os error (\d+)", str(error))
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else OSError(in_one_line(error))


def rounds(folder: Path) -> list[int]:
    """List the rounds after which the folder holds parameters, oldest first."""
    found = (_FILE.fullmatch(path.name) for path in folder.glob("round-*"))
    return sorted(int(match[1]) for match in found if match)


def load(folder: Path, round: int) -> State:
    """Read the parameters after a round; raises `ConfigError` if there are none, or if the file is damaged."""
    return read(path_of(folder, round))


def read(path: Path, *, is_foreign: bool = False) -> State:
    """Read the parameters in a file; raises `ConfigError` if there is none, or if it is damaged.

    Args:
        is_foreign: whether it may come from elsewhere, without a digest, and so unchecked.
    """
    return read_whole(path, is_foreign=is_foreign).state


def read_whole(path: Path, *, is_foreign: bool = False) -> Checkpoint:
    """Read the parameters and the texts in a file, as `read` does."""
    try:
        with safe_open(path, "pt") as file:
            header = dict(file.metadata() or {})
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{path}: cannot be read as a checkpoint: {in_one_line(error)}") from error
    digest = header.pop(_DIGEST, None)
    if digest is None and not is_foreign:
        raise ConfigError(f"{path}: cannot be read as a checkpoint: it has no digest, so it is damaged or not of a run")
    if digest is not None and not hmac.compare_digest(digest.encode(), _digest(state, header).encode()):
        raise ConfigError(f"{path}: cannot be read as a checkpoint: it is damaged, its digest is another")
    return Checkpoint(state, header)


def _digest(state: State, header: Mapping[str, str]) -> str:
    """Return a digest of all that a file says: texts, names, types, shapes and values."""
    names = sorted(state)
    layout = [(name, str(state[name].dtype), tuple(state[name].shape)) for name in names]
    digest = hashlib.blake2b(msgspec.json.encode([sorted(header.items()), layout]), digest_size=32)
    for name in names:
        digest.update(state[name].detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class CheckpointFolder:
    """The checkpoints of a run: read by the number of a round, or by a name. `ConfigError` for missing or damaged ones.

    Args:
        path: their folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, key: int | str) -> State:
        return self.read_whole(key).state

    def read_whole(self, key: int | str) -> Checkpoint:
        """Read the parameters, and the texts that were kept with them."""
        name = round_name(key) if isinstance(key, int) else key
        return read_whole(self._path / f"{name}.safetensors")

    @property
    def rounds(self) -> list[int]:
        """Rounds that have a checkpoint, damaged or not, oldest first."""
        return rounds(self._path)


def newest_in(path: Path) -> Path:
    """Return the file with what a run learned last: `path`, or one in its folder; raises `ConfigError` if none."""
    if path.is_file():
        return path
    folder = path / FOLDER
    final, kept = folder / f"{FINAL}.safetensors", rounds(folder)
    if final.is_file() or kept:
        return final if final.is_file() else path_of(folder, kept[-1])
    raise ConfigError(f"{path}: there is neither a file nor a run that learned something")


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
