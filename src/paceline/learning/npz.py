"""Samples and labels from .npz files, checked and converted to one form.

Samples become uint8 or float32, as images (N, channels, height, width) or features (N, features). Labels become
class numbers from 0: uint8, or int32 with more than 256 classes. All arrays are C-contiguous.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import ConfigError, in_one_line

MAX_CLASSES = 1 << 16
_NUM_CHANNELS = (1, 3, 4)  # of an image: grey, RGB, RGBA


def read_npz(path: Path, keys: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read these arrays of an .npz file, not yet checked; raises `ConfigError` on failure."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):  # NumPy would try other formats, and advise to unpickle
                raise zipfile.BadZipFile("it is not a whole zip archive")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                names = archive.files
                arrays = {key: archive[key] for key in keys if key in names}
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damaged bytes make NumPy, zipfile and zlib raise all sorts of errors
        raise ConfigError(f"{path}: not a readable .npz file: {in_one_line(error)}") from error
    missing = [key for key in keys if not isinstance(arrays.get(key), np.ndarray)]
    if missing:
        raise ConfigError(f"{path}: lacks {', '.join(missing)}; it has {', '.join(names) or 'no arrays'}")
    return arrays


def labelled(
    path: Path, arrays: Mapping[str, NDArray[Any]], part: str, max_classes: int = MAX_CLASSES
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Convert the samples and labels of a part (``train`` or ``test``) to normal form; raises `ConfigError`."""
    try:
        x, y = _samples(f"x_{part}", arrays[f"x_{part}"]), _labels(f"y_{part}", arrays[f"y_{part}"], max_classes)
        if len(x) != len(y):
            raise ValueError(f"x_{part} has {len(x)} samples and y_{part} {len(y)} labels")
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return x, y


def _samples(key: str, x: NDArray[Any]) -> NDArray[Any]:
    if x.dtype != np.uint8 and x.dtype.kind != "f":
        raise ValueError(f"{key} is of type {x.dtype}; allowed: uint8, float32")
    if x.ndim not in (2, 3, 4) or x.size == 0:
        allowed = "(N, features), (N, height, width), (N, channels, height, width), none of them 0"
        raise ValueError(f"{key} has shape {x.shape}; allowed: {allowed}")
    if x.ndim == 3:
        x = x[:, None]
    is_colour_last = x.ndim == 4 and x.shape[1] not in _NUM_CHANNELS and x.shape[3] in _NUM_CHANNELS
    if x.dtype == np.uint8:
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2) if is_colour_last else x)
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(x, np.float32)
    if not np.isfinite(x).all():
        raise ValueError(f"{key} has values that are not finite in float32")
    return x


def _labels(key: str, y: NDArray[Any], max_classes: int) -> NDArray[Any]:
    if y.dtype.kind not in "iu" or y.ndim != 1:
        raise ValueError(f"{key} is {y.dtype} of shape {y.shape}; labels are whole numbers of shape (N,)")
    if y.size == 0:
        raise ValueError(f"{key} is empty")
    lowest, highest = int(y.min()), int(y.max())
    if lowest < 0 or highest >= max_classes:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"{key} has the label {wrong}; allowed: 0 to {max_classes - 1}")
    return np.ascontiguousarray(y, np.uint8 if highest < 256 else np.int32)
