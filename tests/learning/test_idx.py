"""Idx files: plain and compressed, and every way in which they can be wrong."""

import gzip
import struct

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning import idx

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def encode(array, shape=None):
    shape = array.shape if shape is None else shape
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + array.tobytes()


def write(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture(params=["images", "images.gz"])
def path(request, tmp_path):
    return tmp_path / request.param


def test_reads_what_was_written(path):
    array = idx.read(write(path, encode(IMAGES)), 3)
    assert array.dtype == np.uint8
    assert np.array_equal(array, IMAGES)
    assert array.flags.writeable


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "begins with nothing"),
        (b"\x00\x00\x08", "begins with 00 00 08"),
        (encode(IMAGES)[:12], "begins with 00 00 08 03"),
        (encode(IMAGES.ravel()), "begins with 00 00 08 01"),
        (b"\x00\x00\x0d\x03" + encode(IMAGES)[4:], "begins with 00 00 0d 03"),
        (encode(IMAGES)[:-1], "2×3×4 bytes, and the file has fewer"),
        (encode(IMAGES) + b"\x00", "2×3×4 bytes, and the file has more"),
        (encode(IMAGES, (2**32 - 1,) * 3), "the file has fewer"),
    ],
)
def test_what_is_not_such_a_file_is_refused(path, content, reason):
    with pytest.raises(ConfigError, match=f"{path}: not an idx file of 3 dimensions: .*{reason}"):
        idx.read(write(path, content), 3)


def test_a_header_cannot_ask_for_more_memory_than_the_file_could_fill(path, monkeypatch):
    asked = []
    content = write(path, encode(IMAGES, (1 << 20, 1 << 10, 1)))
    monkeypatch.setattr(np, "frombuffer", asked.append)
    with pytest.raises(ConfigError, match="1048576×1024×1 bytes, and the file has fewer"):
        idx.read(content, 3)
    assert asked == []
