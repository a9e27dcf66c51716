"""Labels as tables have them: texts and numbers, as class numbers or as targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.errors import ConfigError
from paceline.learning.npz import MAX_CLASSES, class_numbers
from paceline.learning.shards import Array


def encode_labels(where: str, parts: Sequence[Sequence[Array]], *, is_alone: bool) -> list[Array]:
    """Return the labels of each part, given as columns of texts or numbers; raises `ConfigError`.

    One column of texts becomes class numbers, by their sorted order in all parts. Whole numbers that can be class
    numbers are kept; any other numbers become float32. Several columns become an array (samples, columns).

    Args:
        is_alone: whether these are all the labels of a job; else texts cannot be numbered.
    """
    sizes = np.cumsum([len(columns[0]) for columns in parts])[:-1]
    whole = [np.concatenate(column) for column in zip(*parts, strict=True)]
    if any(column.dtype.kind == "U" for column in whole):
        encoded = _number_texts(where, whole, is_alone=is_alone)
    else:
        numbers = np.stack(whole, axis=1) if len(whole) > 1 else whole[0]
        encoded = _encode_numbers(where, numbers)
    return np.split(encoded, sizes)


def _number_texts(where: str, columns: Sequence[Array], *, is_alone: bool) -> Array:
    if len(columns) > 1:
        raise ConfigError(f"{where}: of several target columns, all must be numbers; name one column, or encode texts")
    if not is_alone:
        raise ConfigError(
            f"{where}: the target column holds texts, which other devices may number in another way: "
            "store class numbers"
        )
    names, numbers = np.unique(columns[0], return_inverse=True)
    if len(names) > MAX_CLASSES:
        raise ConfigError(f"{where}: the target column holds {len(names)} different texts; allowed: {MAX_CLASSES}")
    return class_numbers(where, numbers)


def _encode_numbers(where: str, numbers: Array) -> Array:
    if not np.isfinite(numbers).all():
        raise ConfigError(f"{where}: a target column has values that are missing or not finite")
    is_class = (numbers == np.trunc(numbers)) & (numbers >= 0) & (numbers < MAX_CLASSES)
    return class_numbers(where, numbers.astype(np.int64)) if is_class.all() else numbers.astype(np.float32)
