"""The data every system carries: ten float32 tensors, the same on both sides for the same size."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

NUM_TENSORS = 10
SMALL = b"x" * 100
"""Argument and answer of a small call, 100 bytes."""


def make_tensors(num_bytes: int) -> list[np.ndarray]:
    """Ten equal float32 arrays of `num_bytes` in all; random, so that no page of them is shared or zero."""
    generator = np.random.default_rng(0)
    num_floats = num_bytes // 4 // NUM_TENSORS
    return [generator.random(num_floats, dtype=np.float32) for _ in range(NUM_TENSORS)]


def byte_views(tensors: Sequence[np.ndarray]) -> list[memoryview]:
    """The arrays' memory, not copied."""
    return [memoryview(tensor).cast("B") for tensor in tensors]


def same_bytes(received: Sequence[memoryview], tensors: Sequence[np.ndarray]) -> bool:
    """Whether the received parts, one after the other, are the tensors' bytes, however they are split."""
    return _checksum(received) == _checksum(byte_views(tensors))


def _checksum(parts: Sequence[memoryview]) -> tuple[int, int]:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum, sum(len(part) for part in parts)
