"""Sources of the user's own: a function or class in a file, or objects of this process."""

from __future__ import annotations

import itertools
from typing import Any

from torch.utils.data import TensorDataset

from paceline import plugins
from paceline.errors import ConfigError
from paceline.learning.sources.base import Parts
from paceline.learning.tables import ArrayTable, Source, SourceTable, Table, tuple_names

_HERE = "__objects__"  # in place of a module, for objects that only this process has
_kept: dict[str, tuple[Source, Source | None]] = {}
_numbers = itertools.count(1)


def read_import(path: str) -> Parts:
    """Call what an import path names, without arguments, for a source, or a pair of them: train and test.

    Whoever calls this named the path, or wrote the job: nothing that came over the network is imported. Raises
    `ConfigError` if it cannot be imported, or makes no source.
    """
    location, name = plugins.split_path(path)
    if location == _HERE:
        train, test = _kept_objects(path, name)
        return _parts(train, test, f"data {name!r}")
    factory, what = plugins.load_object(path, "data"), f"data {path!r}"
    made = plugins.guarded(what, f"calling {name}()", factory) if callable(factory) else factory
    if _is_pair(made):
        return _parts(made[0], made[1], path)
    if not is_source(made):
        raise ConfigError(
            f"{what}: {name}() made a {type(made).__name__}; it must be a source, with __len__ and __getitem__, or a "
            "pair of them: train and test"
        )
    return _parts(made, None, path)


def keep_objects(train: Source, test: Source | None) -> str:
    """Keep sources as long as this process lives; returns the import path by which only it finds them."""
    for name, (known_train, known_test) in _kept.items():
        if known_train is train and known_test is test:
            return f"{_HERE}:{name}"
    name = f"objects_{next(_numbers)}"
    _kept[name] = train, test
    return f"{_HERE}:{name}"


def are_objects(path: str | None) -> bool:
    """Return whether an import path stands for objects of one process."""
    return path is not None and path.startswith(f"{_HERE}:")


def is_source(found: Any) -> bool:
    """Return whether something has samples: a length, and items by number."""
    return all(hasattr(type(found), name) for name in ("__len__", "__getitem__")) and not isinstance(found, str | dict)


def _is_pair(made: Any) -> bool:
    return isinstance(made, tuple) and len(made) == 2 and all(map(is_source, made))


def _kept_objects(path: str, name: str) -> tuple[Source, Source | None]:
    if name not in _kept:
        raise ConfigError(
            f"data {path!r} was made of objects in another process; to use it elsewhere, make it by a function in a "
            'file, and give that as import = "file.py:function"'
        )
    return _kept[name]


def _parts(train: Any, test: Any, name: str) -> Parts:
    return Parts(_table(train, f"{name} (train)"), None if test is None else _table(test, f"{name} (test)"))


def _table(source: Any, name: str) -> Table:
    if isinstance(source, Table):
        return source
    if isinstance(source, TensorDataset):  # no need to take its samples one by one
        arrays = [tensor.detach().cpu().numpy() for tensor in source.tensors]
        return ArrayTable(dict(zip(tuple_names(len(arrays)), arrays, strict=True)), where=name)
    return SourceTable(source, name)
