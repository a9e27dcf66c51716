"""A Parquet file: columns of numbers, with labels that may be texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from paceline.errors import ConfigError, in_one_line
from paceline.extras import extra
from paceline.learning.shards import Array
from paceline.learning.sources.arrow import to_array
from paceline.learning.sources.tabular import Rows, TabularFormat, split_names


class ParquetFormat(TabularFormat):
    """Rows stored by columns."""

    description: ClassVar[str] = "a .parquet file, or a folder with train.parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)

    def read_rows(self, file: Path, target: Sequence[str]) -> Rows:
        with extra("parquet"):
            import pyarrow.parquet
        try:
            with pyarrow.parquet.ParquetFile(file) as opened:
                table = opened.read()
        except Exception as error:  # damaged bytes make Arrow raise all sorts of errors
            raise ConfigError(f"{file}: not a readable .parquet file: {in_one_line(error)}") from error
        names = split_names(file, table.column_names, target)
        if not table.num_rows:
            raise ConfigError(f"{file}: there are no rows")
        x = np.empty((table.num_rows, len(names)), np.float32)
        for place, name in enumerate(names):
            x[:, place] = _feature(file, name, table.column(name))
        if not np.isfinite(x).all():
            name = names[int(np.flatnonzero(~np.isfinite(x).all(0))[0])]
            raise ConfigError(f"{file}: column {name!r} has values that are not finite in float32")
        return Rows(names, x, [_target(file, name, table.column(name)) for name in target])


def _feature(file: Path, name: str, column: Any) -> Array:
    array = to_array(f"{file}: column {name!r}", column)
    if array.ndim > 1:
        raise ConfigError(f"{file}: column {name!r} holds lists; features are numbers, one in each column")
    return array


def _target(file: Path, name: str, column: Any) -> Array:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        if column.null_count:
            raise ConfigError(f"{file}: column {name!r} has {column.null_count} missing values; a label is needed")
        return np.array(column.to_pylist())
    return _feature(file, name, column)
