"""A dataset of Hugging Face's ``datasets``, saved to disk: read through Arrow's map of its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from paceline.errors import ConfigError, in_one_line
from paceline.extras import extra
from paceline.learning.shards import Array, Shard
from paceline.learning.sources.arrow import to_array
from paceline.learning.sources.base import Format, Parts, ReadOptions
from paceline.learning.tables import Column, Structure, Table
from paceline.spelling import suggest


class HuggingFaceFormat(Format):
    """A ``Dataset``, or a ``DatasetDict`` with train and test, as its ``save_to_disk`` writes it."""

    description: ClassVar[str] = "a folder that save_to_disk of Hugging Face's datasets wrote"
    uses: ClassVar[tuple[str, ...]] = ("target",)

    def matches(self, path: Path) -> bool:
        return any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json"))

    def read(self, path: Path, options: ReadOptions, *, is_alone: bool = True) -> Parts:
        with extra("huggingface"):
            import datasets
        try:
            found = datasets.load_from_disk(str(path), keep_in_memory=False)
        except Exception as error:  # damaged files make it raise all sorts of errors
            raise ConfigError(f"{path}: not a readable dataset: {in_one_line(error)}") from error
        if not isinstance(found, datasets.DatasetDict):
            return Parts(HuggingFaceTable(found, str(path), options.target))
        if "train" not in found:
            raise ConfigError(f"{path}: lacks the split 'train'; it has {', '.join(found) or 'none'}")
        parts = [name for name in ("train", "test") if name in found]
        return Parts(*(HuggingFaceTable(found[name], f"{path}: {name}", options.target) for name in parts))


class HuggingFaceTable(Table):
    """Rows of a ``Dataset``, copied when they are taken, in the types in which they are stored.

    Samples are dicts, or pairs if there are two columns.

    Args:
        target: columns that come last; none to keep the order.
    """

    def __init__(self, dataset: Any, where: str, target: Sequence[str]) -> None:
        for name in target:
            if name not in dataset.column_names:
                raise ConfigError(f"{where}: target {name!r} is no column; {suggest(name, dataset.column_names)}")
        if not len(dataset):
            raise ConfigError(f"{where} has no samples")
        self._dataset, self._where = dataset.with_format("arrow"), where
        self._names = sorted(dataset.column_names, key=lambda name: name in target)
        self.structure: Structure = "tuple" if len(self._names) == 2 else "dict"
        first = self._arrays(self._dataset[:1])
        self.columns = tuple(
            Column(name, array.dtype.name, array.shape[1:]) for name, array in zip(self._names, first, strict=True)
        )

    def __len__(self) -> int:
        return len(self._dataset)

    def take(self, rows: slice | Array) -> Shard:
        arrays = self._arrays(self._dataset[rows if isinstance(rows, slice) else rows.tolist()])
        for column, array in zip(self.columns, arrays, strict=True):
            self._check(column, array)
        return Shard(*arrays)

    def labels(self) -> Array:
        name = self._names[-1]
        labels = self._array(name, self._dataset.select_columns([name])[:])
        self._check(self.columns[-1], labels)
        return labels

    def _arrays(self, table: Any) -> list[Array]:
        return [self._array(name, table) for name in self._names]

    def _array(self, name: str, table: Any) -> Array:
        return np.array(to_array(f"{self._where}: column {name!r}", table.column(name)))  # no view of the file

    def _check(self, column: Column, array: Array) -> None:
        if array.shape[1:] != column.shape:
            raise ConfigError(
                f"{self._where}: column {column.name!r} has samples of shape {array.shape[1:]}, the first has "
                f"{column.shape}: pad or crop samples to one size"
            )
