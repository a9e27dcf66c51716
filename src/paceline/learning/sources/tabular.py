"""Rows of features with one or more target columns: what CSV and Parquet files have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from paceline.errors import ConfigError
from paceline.learning.shards import Array
from paceline.learning.sources.base import Format, Parts, ReadOptions, find_part
from paceline.learning.sources.labels import encode_labels
from paceline.learning.tables import ArrayTable
from paceline.spelling import suggest


@dataclass(frozen=True)
class Rows:
    """Contents of a file.

    Attributes:
        names: names of the features.
        features: float32 of shape (rows, features).
        targets: the target columns, as numbers or texts.
    """

    names: tuple[str, ...]
    features: Array
    targets: Sequence[Array]


class TabularFormat(Format):
    """A file of rows, or a folder with one for training and one for tests; in memory.

    Features become float32; they must be numbers, since a model that was trained takes numbers, too.
    """

    suffixes: ClassVar[tuple[str, ...]]
    uses: ClassVar[tuple[str, ...]] = ("target",)

    def matches(self, path: Path) -> bool:
        return path.suffix in self.suffixes or any(find_part(path, "train", suffix) for suffix in self.suffixes)

    def read(self, path: Path, options: ReadOptions, *, is_alone: bool = True) -> Parts:
        files = [path]
        if path.is_dir():
            pairs = [[find_part(path, part, suffix) for part in ("train", "test")] for suffix in self.suffixes]
            files = [file for file in next(pair for pair in pairs if pair[0]) if file is not None]
        rows = [self.read_rows(file, options.target) for file in files]
        for file, read in zip(files, rows, strict=True):
            _check_alike(files[0], rows[0].names, file, read.names)
        columns = [read.targets for read in rows]
        labels = encode_labels(str(path), columns, is_alone=is_alone)
        tables = [
            ArrayTable({"x": read.features, "y": y}, where=str(file))
            for file, read, y in zip(files, rows, labels, strict=True)
        ]
        return Parts(*tables)

    @abstractmethod
    def read_rows(self, file: Path, target: Sequence[str]) -> Rows:
        """Read a file; raises `ConfigError` if it is not what it should be."""


def split_names(file: Path, names: Sequence[str], target: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the features; raises `ConfigError` if a target is missing, or nothing is left."""
    if not target:
        raise ConfigError(f"{file}: name the column of the labels, as target in [data]; allowed: {', '.join(names)}")
    for name in target:
        if name not in names:
            raise ConfigError(f"{file}: target {name!r} is no column of it; {suggest(name, names)}")
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise ConfigError(f"{file}: two columns are called {doubles[0]!r}; give each a name of its own")
    features = tuple(name for name in names if name not in target)
    if not features:
        raise ConfigError(f"{file}: all columns are targets; it needs features, too")
    return features


def _check_alike(first: Path, expected: Sequence[str], file: Path, names: Sequence[str]) -> None:
    if names != expected:
        raise ConfigError(f"{file} has the features {', '.join(names)}, {first} has {', '.join(expected)}")
