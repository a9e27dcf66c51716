"""A folder of .npy files: arrays by name, mapped into memory as far as they are read."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from paceline.errors import ConfigError, in_one_line
from paceline.learning.shards import Array
from paceline.learning.sources.base import Format, Parts, ReadOptions
from paceline.learning.sources.named_columns import part_names, parts_of


class NpyFolderFormat(Format):
    """Files ``NAME_train.npy`` and ``NAME_test.npy`` in one folder, larger than memory if need be."""

    description: ClassVar[str] = "a folder of .npy files"

    def matches(self, path: Path) -> bool:
        return path.is_dir() and any(path.glob("*.npy"))

    def read(self, path: Path, options: ReadOptions, *, is_alone: bool = True) -> Parts:
        names = sorted(file.stem for file in path.glob("*.npy"))
        return parts_of(path, {name: _mapped(path / f"{name}.npy") for name in part_names(names)})


def _mapped(path: Path) -> Array:
    try:
        with path.open("rb") as file:
            np.lib.format.read_magic(file)  # NumPy would try other formats, and advise to unpickle
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damaged bytes make NumPy raise all sorts of errors
        raise ConfigError(f"{path}: not a readable .npy file: {in_one_line(error)}") from error
    return array
