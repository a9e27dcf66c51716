"""Samples and labels from .npz files, checked and converted to one form.

Bytes and floats under the name x become uint8 or float32, as images (N, channels, height, width) or features (N,
features); other whole numbers, such as tokens, stay as they are. Whole numbers under the name y become class numbers
from 0: uint8, or int32 with more than 256 classes; floats become float32 targets. Arrays are C-contiguous, except those
that are mapped from files, which keep their types, too.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import ConfigError, in_one_line
from paceline.learning.memory import format_bytes, free_bytes
from paceline.learning.tables import is_mapped

MAX_CLASSES = 1 << 16
_NUM_CHANNELS = (1, 3, 4)  # of an image: grey, RGB, RGBA


def read_npz(path: Path, keys: Sequence[str] | Callable[[list[str]], Sequence[str]]) -> dict[str, NDArray[Any]]:
    """Read these arrays of an .npz file, not yet checked; raises `ConfigError` on failure.

    Args:
        keys: names of the arrays, of which none may be missing; or a function that chooses from the names there are.
    """
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):  # NumPy would try other formats, and advise to unpickle
                raise zipfile.BadZipFile("it is not a whole zip archive")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                names = archive.files
                wanted = keys(names) if callable(keys) else keys
                _check_unpacked(path, archive, wanted)
                arrays = {key: archive[key] for key in wanted if key in names}
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file") from error
    except ConfigError:
        raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damaged bytes make NumPy, zipfile and zlib raise all sorts of errors
        raise ConfigError(f"{path}: not a readable .npz file: {in_one_line(error)}") from error
    missing = [key for key in wanted if not isinstance(arrays.get(key), np.ndarray)]
    if missing:
        raise ConfigError(f"{path}: lacks {', '.join(missing)}; it has {', '.join(names) or 'no arrays'}")
    return arrays


def _check_unpacked(path: Path, archive: np.lib.npyio.NpzFile, keys: Sequence[str]) -> None:
    """Raise `ConfigError` for arrays that take more memory than there is: a few megabytes may unpack to gigabytes."""
    assert archive.zip is not None
    wanted = {f"{key}.npy" for key in keys} | set(keys)
    num_bytes = sum(member.file_size for member in archive.zip.infolist() if member.filename in wanted)
    if num_bytes > free_bytes():
        raise ConfigError(
            f"{path}: unpacked, its arrays take {format_bytes(num_bytes)}, and {format_bytes(free_bytes())} of memory "
            "are free; a folder of .npy files is mapped instead of read"
        )


def in_normal_form(
    path: Path, columns: Mapping[str, NDArray[Any]], part: str, max_classes: int = MAX_CLASSES
) -> dict[str, NDArray[Any]]:
    """Convert x and y, as far as they are there, of a part (``train`` or ``test``); raises `ConfigError`."""
    try:
        converted = {
            name: _samples(f"x_{part}", array) if name == "x" else _labels(f"{name}_{part}", array, max_classes)
            for name, array in columns.items()
        }
        if len({len(array) for array in converted.values()}) > 1:
            raise ValueError(f"x_{part} has {len(columns['x'])} samples and y_{part} {len(columns['y'])} labels")
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return converted


def class_numbers(key: str, y: NDArray[Any], max_classes: int = MAX_CLASSES) -> NDArray[Any]:
    """Convert whole numbers to class numbers; raises `ValueError` if they cannot be."""
    if y.size == 0:
        raise ValueError(f"{key} is empty")
    lowest, highest = int(y.min()), int(y.max())
    if lowest < 0 or highest >= max_classes:
        wrong = lowest if lowest < 0 else highest
        hint = "" if max_classes < MAX_CLASSES else "; store whole numbers that are no classes as floats"
        raise ValueError(f"{key} has the label {wrong}; allowed: 0 to {max_classes - 1}{hint}")
    return np.ascontiguousarray(y, smallest_type(highest + 1))


def smallest_type(num_classes: int) -> type[np.integer[Any]]:
    """Return the type that class numbers are stored in."""
    return np.uint8 if num_classes <= 256 else np.int32


def _samples(key: str, x: NDArray[Any]) -> NDArray[Any]:
    if x.dtype.kind not in "biuf":
        raise ValueError(f"{key} is of type {x.dtype}; allowed: uint8, float32, and other numbers")
    is_image_or_feature = x.dtype == np.uint8 or x.dtype.kind == "f"
    if x.ndim < 2 or (is_image_or_feature and x.ndim > 4) or x.size == 0:
        allowed = "(N, features), (N, height, width), (N, channels, height, width), none of them 0"
        raise ValueError(f"{key} has shape {x.shape}; allowed: {allowed}")
    if is_image_or_feature and x.ndim == 3:
        x = x[:, None]
    is_colour_last = x.ndim == 4 and x.shape[1] not in _NUM_CHANNELS and x.shape[3] in _NUM_CHANNELS
    if x.dtype == np.uint8 and is_colour_last:
        x = x.transpose(0, 3, 1, 2)
    if is_mapped(x):
        return x
    return _finite_float32(key, x) if x.dtype.kind == "f" else np.ascontiguousarray(x)


def _labels(key: str, y: NDArray[Any], max_classes: int) -> NDArray[Any]:
    if y.dtype.kind not in "biuf" or not y.ndim:
        raise ValueError(f"{key} is {y.dtype} of shape {y.shape}; labels are numbers, with one row for each sample")
    if y.ndim == 1 and y.dtype.kind in "biu":
        return class_numbers(key, y, max_classes)
    return y if is_mapped(y) else _finite_float32(key, y) if y.dtype.kind == "f" else np.ascontiguousarray(y)


def _finite_float32(key: str, array: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"{key} has values that are not finite in float32")
    return array
