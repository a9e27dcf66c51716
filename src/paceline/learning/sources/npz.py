"""An .npz file: arrays by name, read into memory."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from paceline.learning.npz import read_npz
from paceline.learning.sources.base import Format, Parts, ReadOptions
from paceline.learning.sources.named_columns import part_names, parts_of


class NpzFormat(Format):
    """Arrays ``NAME_train`` and ``NAME_test`` in one file, in memory."""

    description: ClassVar[str] = "an .npz file"

    def matches(self, path: Path) -> bool:
        return path.suffix == ".npz"

    def read(self, path: Path, options: ReadOptions, *, is_alone: bool = True) -> Parts:
        return parts_of(path, read_npz(path, part_names))
