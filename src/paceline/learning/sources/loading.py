"""Finding the format of stored data, and splitting off a test part where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paceline.errors import ConfigError
from paceline.learning.sources.base import Format, Parts, ReadOptions
from paceline.learning.sources.csv_file import CsvFormat
from paceline.learning.sources.huggingface import HuggingFaceFormat
from paceline.learning.sources.image_folder import ImageFolderFormat
from paceline.learning.sources.imported import read_import
from paceline.learning.sources.npy_folder import NpyFolderFormat
from paceline.learning.sources.npz import NpzFormat
from paceline.learning.sources.parquet import ParquetFormat
from paceline.learning.tables import Table

FORMATS: dict[str, Format] = {
    "npz": NpzFormat(),
    "csv": CsvFormat(),
    "parquet": ParquetFormat(),
    "huggingface": HuggingFaceFormat(),
    "npy": NpyFolderFormat(),
    "images": ImageFolderFormat(),
}
"""Formats of stored data by name; the first that matches a path reads it."""

_DEFAULTS = ReadOptions()


def load_source(where: str, options: ReadOptions = _DEFAULTS) -> tuple[Table, Table]:
    """Open training and test data at a path, or by import path; raises `ConfigError`.

    Where there is no test part, it is drawn: always the same samples.
    """
    parts = _read(where, options, is_alone=True)
    if parts.test is None:
        return _split(where, parts.train, options.test_share)
    return check_alike(where, parts.train, parts.test)


def load_own(where: str, options: ReadOptions = _DEFAULTS) -> Table:
    """Open a device's own training data, at a path or by import path; raises `ConfigError`."""
    return _read(where, options, is_alone=False).train


def check_options(where: str, options: ReadOptions) -> None:
    """Raise `ConfigError` for an option that means nothing for the data there."""
    if is_import(where):
        uses, what = tuple[str, ...](), "data of your own code"
    else:
        found = _format_at(Path(where))
        uses, what = found.uses, found.description
    for key in ("target", "image_size"):
        if key not in uses and getattr(options, key) != getattr(_DEFAULTS, key):
            raise ConfigError(f"{where}: {key} does nothing for {what}: leave it out of [data]")


def check_alike(where: str, train: Table, test: Table) -> tuple[Table, Table]:
    """Return both; raises `ConfigError` if their samples have different columns."""
    if (train.columns, train.structure) != (test.columns, test.structure):
        shown = " and ".join(f"a {table.structure} of {_shown(table)}" for table in (train, test))
        raise ConfigError(f"{where}: the samples for training and tests differ: {shown}")
    return train, test


def is_import(where: str) -> bool:
    """Return whether it reads as an import path, not as a path of a file or folder."""
    location, _, name = where.rpartition(":")
    is_module = all(part.isidentifier() for part in location.split("."))
    return name.isidentifier() and (location.endswith(".py") or is_module) and not Path(where).exists()


def _read(where: str, options: ReadOptions, *, is_alone: bool) -> Parts:
    if is_import(where):
        return read_import(where)
    path = Path(where)
    return _format_at(path).read(path, options, is_alone=is_alone)


def _format_at(path: Path) -> Format:
    if not path.exists():
        raise ConfigError(f"{path}: no such file or folder")
    found = next((each for each in FORMATS.values() if each.matches(path)), None)
    if found is None:
        kinds = "; ".join(each.description for each in FORMATS.values())
        raise ConfigError(f"{path}: not data of a known format; allowed: {kinds}; or file.py:function by import")
    return found


def _split(where: str, table: Table, share: float) -> tuple[Table, Table]:
    num_test = max(1, round(share * len(table)))
    if num_test >= len(table):
        raise ConfigError(f"{where}: test_share is {share:g}; of {len(table)} samples, none would be left to train on")
    order = np.random.default_rng(0).permutation(len(table))  # the same for all seeds, which can then be compared
    return table.reordered(np.sort(order[num_test:])), table.reordered(np.sort(order[:num_test]))


def _shown(table: Table) -> str:
    return ", ".join(f"{column.name} {column.dtype} {column.shape}" for column in table.columns)
