"""Random numbers from a seed that nobody can tell from others without it: the stream of ChaCha20."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from paceline.learning.shards import Array

SEED_BYTES = 32
"""Size of a seed."""
_BLOCK = 1 << 17  # numbers at once, so that they stay in the cache of a small processor


def numbers(seed: bytes, count: int) -> Iterator[tuple[slice, Array]]:
    """Yield so many random 64-bit numbers in parts, each with its place; a part is overwritten by the next."""
    stream = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
    block = min(count, _BLOCK)
    zeros, drawn = bytes(8 * block), bytearray(8 * block + 64)
    for begin in range(0, count, _BLOCK):
        size = min(block, count - begin)
        stream.update_into(zeros if size == block else bytes(8 * size), drawn)
        yield slice(begin, begin + size), np.frombuffer(drawn, np.dtype("<u8"), size)


def normal(seed: bytes, count: int) -> Array:
    """Return so many numbers from the standard normal distribution, by the method of Box and Muller."""
    drawn = np.empty(count + count % 2)
    for place, part in numbers(seed, len(drawn)):
        drawn[place] = ((part >> np.uint64(11)) + 0.5) * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log(drawn[::2])), 2 * np.pi * drawn[1::2]
    drawn[::2], drawn[1::2] = radius * np.cos(angle), radius * np.sin(angle)
    return drawn[:count]
