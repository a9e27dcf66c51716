"""Columns of Apache Arrow as arrays: numbers, or lists of them that are all of one length."""

from __future__ import annotations

from typing import Any

import numpy as np

from paceline.errors import ConfigError
from paceline.learning.shards import Array


def to_array(where: str, column: Any) -> Array:
    """Return a column as an array of one row per sample; raises `ConfigError` for what is no number everywhere.

    Args:
        column: pyarrow's ``Array`` or ``ChunkedArray``.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        parts = [to_array(where, chunk) for chunk in column.chunks]
        if len({part.shape[1:] for part in parts}) > 1:
            raise ConfigError(f"{where} has lists of unequal lengths; pad or crop them to one")
        return np.concatenate(parts) if len(parts) != 1 else parts[0]
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.null_count:
        raise ConfigError(f"{where} has {column.null_count} missing values; fill them in")
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _stacked(where, column)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ConfigError(f"{where} is {kind}; allowed: numbers, true or false, and lists of them")
    array: Array = column.to_numpy(zero_copy_only=False)
    return array


def _stacked(where: str, column: Any) -> Array:
    lengths = np.unique(column.value_lengths().to_numpy(zero_copy_only=False))
    if len(lengths) > 1:
        raise ConfigError(f"{where} has lists of {lengths.min()} to {lengths.max()} values; pad or crop them to one")
    values = to_array(where, column.flatten())
    return values.reshape(len(column), -1 if len(lengths) == 0 else int(lengths[0]), *values.shape[1:])
