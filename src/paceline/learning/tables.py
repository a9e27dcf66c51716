"""Tables: samples in columns, in memory, mapped from files, or made one by one by a source of the user's.

A column has one row per sample, of one dtype and shape. The last column holds the labels.
"""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
import torch

from paceline.errors import ConfigError, in_one_line
from paceline.learning.shards import Array, Shard

T = TypeVar("T")

Structure: TypeAlias = Literal["tuple", "dict", "tensor"]
"""What a sample, and so a batch, looks like to a task: its columns as a tuple, by name, or the only one alone."""

_LABELS = ("y", "label", "labels", "target", "targets")  # come last, whatever their place
_MAX_MAPPED_BYTES = 1 << 26  # of a file that stay in memory: then they are released, to be read again when needed
_PAGES_AROUND = 1 << 16  # bytes that a system maps around each row that it reads
_STEP_ROWS = 4096  # copied at a time from a mapped file, so that a long slice is not mapped whole


class Column(msgspec.Struct, frozen=True):
    """One column of a table.

    Attributes:
        dtype: NumPy's name of it, such as ``uint8``, ``int64``, ``float32`` or ``bool``.
        shape: shape of one sample; () for a number.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Size of one sample in this column."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Table(ABC):
    """Samples in columns, perhaps more than fit in memory; they are taken some at a time.

    Attributes:
        columns: name, dtype and shape of each column, labels last.
        structure: what a sample looks like to a task.
        is_in_memory: whether all samples are in memory, so that taking them costs next to nothing.
    """

    columns: tuple[Column, ...]
    structure: Structure
    is_in_memory = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: slice | Array) -> Shard:
        """Return the samples of these numbers: copies, or views for a slice of arrays in memory.

        Raises `ConfigError` where they cannot be read.
        """

    @property
    def sample_bytes(self) -> int:
        """Size of one sample, all columns together."""
        return sum(column.num_bytes for column in self.columns)

    def reordered(self, order: Array) -> Table:
        """Return the rows of these numbers, in that order: copied once if in memory, else taken when asked for."""
        return _ReorderedTable(self, order)

    def labels(self) -> Array:
        """Return the last column, whole."""
        return self.take(slice(None))[-1]


class ArrayTable(Table):
    """Columns in arrays, in memory or mapped from files; raises `ConfigError` for arrays that cannot be columns.

    Of mapped files only what was read last stays in memory.

    Args:
        arrays: columns by name, all of the same length.
        where: what the arrays are from, for messages.
    """

    def __init__(self, arrays: Mapping[str, Array], structure: Structure = "tuple", where: str = "data") -> None:
        for name, array in arrays.items():
            _check_column(f"{where}: {name}", array)
        _check_together(arrays, structure, where)
        self.columns = tuple(Column(name, array.dtype.name, array.shape[1:]) for name, array in arrays.items())
        self.structure = structure
        self._arrays = [_Mapped(array) if is_mapped(array) else _InMemory(array) for array in arrays.values()]
        self.is_in_memory = all(isinstance(array, _InMemory) for array in self._arrays)

    def __len__(self) -> int:
        return len(self._arrays[0])

    def take(self, rows: slice | Array) -> Shard:
        return Shard(*[array.take(rows) for array in self._arrays])

    def reordered(self, order: Array) -> Table:
        if not self.is_in_memory:
            return super().reordered(order)
        names = [column.name for column in self.columns]
        return ArrayTable(dict(zip(names, self.take(order), strict=True)), self.structure)

    def labels(self) -> Array:
        return self._arrays[-1].take(slice(None))


class Source(Protocol):
    """Samples made one by one, as by a torch ``Dataset``: tensors, arrays or numbers, or tuples or dicts of these."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...


class SourceTable(Table):
    """Samples of a source, each made when it is taken; raises `ConfigError` for samples that are no rows.

    All have the columns, dtypes and shapes of the first. A Python float becomes a float32, as in torch.

    Args:
        name: what the source is called in messages.
    """

    def __init__(self, source: Source, name: str) -> None:
        self._source, self._name = source, name
        self._length = self._counted()
        self.structure, first = _read_sample(f"sample 0 of {name}", self._raw(0))
        self.columns = tuple(Column(key, value.dtype.name, value.shape) for key, value in labels_last(first).items())

    def __len__(self) -> int:
        return self._length

    def take(self, rows: slice | Array) -> Shard:
        numbers = row_numbers(rows, len(self))
        taken = [np.empty((len(numbers), *column.shape), column.dtype) for column in self.columns]
        for place, values in enumerate(map(self._sample, numbers.tolist())):
            for array, value in zip(taken, values, strict=True):
                array[place] = value
        return Shard(*taken)

    def labels(self) -> Array:
        return np.stack([self._sample(number)[-1] for number in range(len(self))])

    def _counted(self) -> int:
        try:
            length = len(self._source)
        except Exception as error:  # whatever the user's code raises
            raise ConfigError(f"{self._name}: its length is needed: {in_one_line(error, is_named=True)}") from error
        if length < 1:
            raise ConfigError(f"{self._name} has no samples")
        return length

    def _raw(self, number: int) -> Any:
        try:
            return self._source[number]
        except ConfigError:
            raise
        except Exception as error:  # whatever the user's code raises
            raise ConfigError(f"sample {number} of {self._name}: {in_one_line(error, is_named=True)}") from error

    def _sample(self, number: int) -> list[Array]:
        """Make a sample; raises `ConfigError` if it is unlike the first."""
        where = f"sample {number} of {self._name}"
        structure, values = _read_sample(where, self._raw(number))
        names = [column.name for column in self.columns]
        if structure != self.structure or sorted(values) != sorted(names):
            raise ConfigError(
                f"{where} is a {structure} of {', '.join(values)}, the first is a {self.structure} of "
                f"{', '.join(names)}: give all samples the same columns"
            )
        for place, column in enumerate(self.columns):
            _check_like_first(where, place, column, values[column.name])
        return [values[name] for name in names]


def row_numbers(rows: slice | Array, length: int) -> Array:
    """Return the numbers of these rows, of so many."""
    return np.arange(*rows.indices(length)) if isinstance(rows, slice) else np.asarray(rows)


class _ReorderedTable(Table):
    """Rows of a table that is not in memory, in another order."""

    def __init__(self, table: Table, order: Array) -> None:
        self._table, self._order = table, order
        self.columns, self.structure = table.columns, table.structure

    def __len__(self) -> int:
        return len(self._order)

    def take(self, rows: slice | Array) -> Shard:
        return self._table.take(self._order[rows])

    def reordered(self, order: Array) -> Table:
        return _ReorderedTable(self._table, self._order[order])

    def labels(self) -> Array:
        labels: Array = self._table.labels()[self._order]
        return labels


class _InMemory:
    """An array in memory."""

    def __init__(self, array: Array) -> None:
        self._array = np.asarray(array, array.dtype.newbyteorder("="))  # torch takes the machine's byte order only

    def __len__(self) -> int:
        return len(self._array)

    def take(self, rows: slice | Array) -> Array:
        taken: Array = self._array[rows]
        return taken


class _Mapped:
    """An array mapped from a file: rows are copied, and what was mapped for it is released now and then."""

    def __init__(self, array: Array) -> None:
        mapping = _mapping_of(array)
        assert mapping is not None
        self._array, self._mapping = np.asarray(array), mapping
        self._row_bytes = array.nbytes // len(array)
        self._mapped_bytes = 0

    def __len__(self) -> int:
        return len(self._array)

    def take(self, rows: slice | Array) -> Array:
        numbers = row_numbers(rows, len(self))
        taken = np.empty((len(numbers), *self._array.shape[1:]), self._array.dtype.newbyteorder("="))
        step = max(1, min(_STEP_ROWS, _MAX_MAPPED_BYTES // (self._row_bytes + _PAGES_AROUND)))
        for start in range(0, len(numbers), step):
            part = numbers[start : start + step]
            taken[start : start + step] = self._array[part]
            self._release(len(part))
        return taken

    def _release(self, num_rows: int) -> None:
        self._mapped_bytes += num_rows * (self._row_bytes + _PAGES_AROUND)
        if self._mapped_bytes >= _MAX_MAPPED_BYTES and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
            self._mapping.madvise(mmap.MADV_DONTNEED)
            self._mapped_bytes = 0


def is_mapped(array: Array) -> bool:
    """Return whether an array is mapped from a file, for reading only."""
    return _mapping_of(array) is not None


def _mapping_of(array: Any) -> mmap.mmap | None:
    """Return the file that an array is mapped from, for reading only; None if it is in memory."""
    if array.flags.writeable:  # what was written to it may be nowhere else
        return None
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, mmap.mmap) else None


def _read_sample(where: str, sample: Any) -> tuple[Structure, dict[str, Array]]:
    """Return the structure of a sample, and its values as arrays by the names of their columns."""
    values: Iterable[tuple[str, Any]]
    structure: Structure
    if isinstance(sample, Mapping):
        structure, values = "dict", [(str(name), value) for name, value in sample.items()]
    elif isinstance(sample, tuple | list):
        structure, values = "tuple", zip(tuple_names(len(sample)), sample, strict=True)
    else:
        structure, values = "tensor", [("x", sample)]
    arrays = {name: _as_array(f"{where}: {name}", value) for name, value in values}
    if not arrays:
        raise ConfigError(f"{where} has no columns")
    return structure, arrays


def labels_last(columns: Mapping[str, T]) -> dict[str, T]:
    """Return columns in their order, but those that hold labels by their names last."""
    return dict(sorted(columns.items(), key=lambda item: item[0] in _LABELS))


def tuple_names(num_columns: int) -> list[str]:
    """Name the columns of a tuple: x and y, or x1, x2, … and y."""
    inputs = ["x"] if num_columns == 2 else [f"x{number}" for number in range(1, num_columns)]
    return [*inputs, "y"][:num_columns]


def _as_array(where: str, value: Any) -> Array:
    try:
        array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    except Exception as error:  # types that NumPy lacks, lists of unequal lengths, the user's own classes
        raise ConfigError(f"{where} is no array: {in_one_line(error)}") from error
    _check_dtype(where, array)
    return array.astype(np.float32) if type(value) is float else array


def _check_like_first(where: str, place: int, column: Column, value: Array) -> None:
    if value.shape != column.shape:
        raise ConfigError(
            f"{where} has shape {value.shape} in column {place} ({column.name}), the first has {column.shape}: "
            "pad or crop samples to one size"
        )
    if value.dtype.name != column.dtype:
        raise ConfigError(
            f"{where} is {value.dtype} in column {place} ({column.name}), the first is {column.dtype}: "
            "convert samples to one type"
        )


def _check_column(where: str, array: Array) -> None:
    _check_dtype(where, array)
    if not array.ndim:
        raise ConfigError(f"{where} is a single number; a column has one row per sample")
    if not array.size:
        raise ConfigError(f"{where} is empty: its shape is {array.shape}")


def _check_dtype(where: str, array: Array) -> None:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        kind = {"U": "text", "S": "bytes", "O": "Python objects"}.get(array.dtype.kind, str(array.dtype))
        raise ConfigError(f"{where} is {kind}; allowed: bool, whole numbers and floats of up to 64 bits")


def _check_together(arrays: Mapping[str, Array], structure: Structure, where: str) -> None:
    if not arrays or (structure == "tensor" and len(arrays) > 1):
        wanted = "one column" if structure == "tensor" else "at least one column"
        raise ConfigError(f"{where}: there are {len(arrays)} columns; samples that are a {structure} need {wanted}")
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise ConfigError(f"{where}: columns have different numbers of samples: {lengths}")
