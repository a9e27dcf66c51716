"""Rows that took long to make, kept in the user's cache for other experiments that need the same."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

import paceline
from paceline.learning.datasets import default_directories
from reproduction.rows import Row

_PACKAGE = Path(paceline.__file__).parent
_PARTS = ("axon", "devices", "events.py", "fleets", "learning", "topologies")
"""Parts of the package on which any trial depends."""


def default_folder() -> Path:
    """Return the folder where rows are kept, in the user's cache."""
    return default_directories()[-1] / "trials"


def kept(
    key: Sequence[Any], sources: Iterable[Path | str], make: Callable[[], list[Row]], folder: Path | None = None
) -> list[Row]:
    """Return the rows that `make` gives, from a file if it gave them before with the same source code and PyTorch.

    A file that is damaged is made anew. A folder that cannot be written to costs the next run its time, and no more.

    Args:
        key: what they are of; all that they depend on, as plain data.
        sources: files that they depend on besides those of any trial.
        folder: None for `default_folder`.
    """
    path = (default_folder() if folder is None else folder) / f"{_digest(key, sources)}.json"
    with contextlib.suppress(OSError, ValueError):
        rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))
        return rows
    rows = make()
    with contextlib.suppress(OSError):
        _write(path, rows)
    return rows


def _digest(key: Sequence[Any], sources: Iterable[Path | str]) -> str:
    digest = hashlib.blake2b(f"{key!r} {torch.__version__} {_source_digest()}".encode(), digest_size=16)
    for source in sources:
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()


@functools.cache
def _source_digest() -> str:
    """Digest the source of the package, as far as trials depend on it, and of what plays them."""
    digest = hashlib.blake2b(Path(__file__).with_name("trials.py").read_bytes(), digest_size=16)
    for part in _PARTS:
        place = _PACKAGE / part
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _write(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=path.stem, suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(rows, file)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
