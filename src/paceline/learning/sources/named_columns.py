"""Arrays by name, such as ``x_train`` or ``tokens_test``, as tables: what .npz files and folders of .npy files hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from paceline.errors import ConfigError
from paceline.learning.npz import in_normal_form
from paceline.learning.shards import Array
from paceline.learning.sources.base import Parts
from paceline.learning.tables import ArrayTable, Structure, labels_last

_PARTS = ("train", "test")
_GROUPS = "key"  # not a column, but the groups by which samples are split among devices


def part_names(names: list[str]) -> list[str]:
    """Return those names of arrays that stand for a column of a part."""
    split = {name: name.rpartition("_") for name in names}
    return [name for name, (column, _, part) in split.items() if part in _PARTS and column and column != _GROUPS]


def parts_of(path: Path, arrays: Mapping[str, Array]) -> Parts:
    """Make the parts of arrays that are named as their column and part; raises `ConfigError`.

    Columns of the names x and y take the normal form of `paceline.learning.npz`; all others stay as they are.
    """
    columns = {part: _columns_of(arrays, part) for part in _PARTS}
    _check_names(path, columns, list(arrays))
    is_common = set(columns["train"]) <= {"x", "y"}
    structure: Structure = "dict" if not is_common else "tuple" if len(columns["train"]) > 1 else "tensor"
    if is_common:
        columns = _alike({part: in_normal_form(path, found, part) for part, found in columns.items()})
    train, test = (
        ArrayTable(found, structure, f"{path}: {part} part") if found else None for part, found in columns.items()
    )
    assert train is not None
    return Parts(train, test)


def _columns_of(arrays: Mapping[str, Array], part: str) -> dict[str, Array]:
    """Return the columns of a part by name, those with labels last."""
    found = {name.removesuffix(f"_{part}"): array for name, array in arrays.items() if name.endswith(f"_{part}")}
    found.pop(_GROUPS, None)
    return labels_last(found)


def _alike(columns: dict[str, dict[str, Array]]) -> dict[str, dict[str, Array]]:
    """Give class numbers one type, also where only one part has those of many classes."""
    kinds = [found["y"].dtype for found in columns.values() if "y" in found]
    if {kind.kind for kind in kinds} <= set("iu"):
        for found in columns.values():
            if "y" in found:
                found["y"] = found["y"].astype(np.result_type(*kinds), copy=False)
    return columns


def _check_names(path: Path, columns: Mapping[str, Mapping[str, Array]], names: list[str]) -> None:
    train, test = columns["train"], columns["test"]
    missing = [f"{name}_test" for name in train if test and name not in test]
    missing += [f"{name}_train" for name in test if name not in train]
    if not train and not test:
        missing = ["x_train", "y_train"]
    if missing:
        raise ConfigError(f"{path}: lacks {', '.join(missing)}; it has {', '.join(names) or 'no arrays'}")
