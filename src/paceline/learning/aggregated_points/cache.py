"""Caches of aggregated points, in files and in this process, keyed by the data and the spec."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from paceline.errors import ConfigError
from paceline.learning.aggregated_points.aggregation import Progress, aggregate
from paceline.learning.aggregated_points.sets import AggregatedPoints, Sets
from paceline.learning.aggregated_points.specs import PointsSpec
from paceline.learning.datasets import default_directories
from paceline.learning.npz import read_npz
from paceline.learning.shards import Array

_VERSION = 1  # of the algorithm; raise it to ignore older files
_ARRAYS = ("x", "y", "offsets", "indices")
_MAX_REMEMBERED_BYTES = 1 << 28


class Found(NamedTuple):
    """Points, and whether they came from the cache."""

    points: AggregatedPoints
    is_cached: bool


def default_folder() -> Path:
    """Return the folder of cached points in the user's cache."""
    return default_directories()[-1] / "points"


def cached(x: Array, y: Array, spec: PointsSpec, folder: Path | None = None, progress: Progress | None = None) -> Found:
    """Return the points of `aggregate` from a file, or make and save them.

    A damaged file is replaced; a folder that cannot be written to is ignored.

    Args:
        folder: folder of the files; None for `default_folder`.
    """
    path = (default_folder() if folder is None else folder) / f"{_digest(x, y, spec)}.npz"
    points = _read(path, x, y)
    if points is not None:
        return Found(points, True)
    points = aggregate(x, y, spec, progress)
    with contextlib.suppress(OSError):
        _write(path, points)
    return Found(points, False)


def remembered(x: Array, y: Array, spec: PointsSpec) -> AggregatedPoints:
    """Return the points of `aggregate`, made once per process."""
    key = _digest(x, y, spec)
    points = _memory.pop(key, None)
    if points is None:
        points = aggregate(x, y, spec)
    _memory[key] = points  # as the most recent
    while sum(one.x.nbytes for one in _memory.values()) > _MAX_REMEMBERED_BYTES and len(_memory) > 1:
        _memory.popitem(last=False)
    return points


_memory: OrderedDict[str, AggregatedPoints] = OrderedDict()


def _digest(x: Array, y: Array, spec: PointsSpec) -> str:
    digest = hashlib.blake2b(msgspec.json.encode((_VERSION, spec)), digest_size=16)
    for array in (x, y):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _read(path: Path, x: Array, y: Array) -> AggregatedPoints | None:
    """Read points from a file; None if there is none, or if they do not fit the samples."""
    try:
        arrays = read_npz(path, _ARRAYS)
    except ConfigError:
        return None
    points = AggregatedPoints(arrays["x"], arrays["y"], Sets(arrays["offsets"], arrays["indices"]))
    is_sound = (
        points.sets.offsets.dtype == points.sets.indices.dtype == np.int64
        and points.sets.is_whole(len(y))
        and (points.x.dtype, points.x.shape) == (np.float32, (len(points.sets), *x.shape[1:]))
        and (points.y.dtype, points.y.shape) == (y.dtype, (len(points.sets),))
    )
    return points if is_sound else None


def _write(path: Path, points: AggregatedPoints) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=path.stem, suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, x=points.x, y=points.y, offsets=points.sets.offsets, indices=points.sets.indices)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
