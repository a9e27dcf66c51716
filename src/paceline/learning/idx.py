"""Reading idx files, the format in which MNIST and similar datasets are published.

An idx file is two zero bytes, a type (8 for uint8), the number of dimensions, each dimension as a big-endian
32-bit number, and the elements. It may be compressed by gzip.
"""

from __future__ import annotations

import contextlib
import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import ConfigError

_MAX_DEFLATE_RATIO = 1032  # deflate cannot pack more into a byte (zlib's technical details), so neither can a header


def read(path: Path, num_dimensions: int) -> NDArray[Any]:
    """Read the uint8 array in an idx file of that many dimensions; raises `ConfigError` for any other file."""
    try:
        return _read(path, num_dimensions)
    except (ValueError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: not an idx file of {num_dimensions} dimensions: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read(path: Path, num_dimensions: int) -> NDArray[Any]:
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(path.open("rb"))
        num_bytes = os.fstat(raw.fileno()).st_size
        file: Any = raw
        if path.suffix == ".gz":
            file, num_bytes = stack.enter_context(gzip.GzipFile(fileobj=raw)), num_bytes * _MAX_DEFLATE_RATIO
        header = file.read(4 + 4 * num_dimensions)
        if len(header) < 4 + 4 * num_dimensions or header[:4] != bytes((0, 0, 8, num_dimensions)):
            raise ValueError(f"it begins with {header[:4].hex(' ') or 'nothing'}")
        shape = struct.unpack(f">{num_dimensions}I", header[4:])
        num_elements = math.prod(shape)
        size = "×".join(map(str, shape))
        if num_elements > num_bytes:
            raise ValueError(f"its header announces {size} bytes, and the file has fewer")
        elements = file.read(num_elements + 1)
    if len(elements) != num_elements:
        fewer_or_more = "fewer" if len(elements) < num_elements else "more"
        raise ValueError(f"its header announces {size} bytes, and the file has {fewer_or_more}")
    return np.frombuffer(bytearray(elements), np.uint8).reshape(shape)
