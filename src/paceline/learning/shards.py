"""Training data in shards: shuffled once, handed out as it is stored."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from paceline.learning.tables import Table

Array: TypeAlias = "np.ndarray[Any, Any]"


class Shard(tuple[Array, ...]):
    """Unit of data handed out: samples as stored, one array for each column, labels last."""

    __slots__ = ()

    def __new__(cls, *columns: Array) -> Shard:
        return super().__new__(cls, columns)

    def __getnewargs__(self) -> tuple[Array, ...]:
        return tuple(self)  # a copy, or what is sent to another process, is made of columns as well

    @property
    def x(self) -> Array:
        """First column: the inputs."""
        return self[0]

    @property
    def y(self) -> Array:
        """Last column: the labels."""
        return self[-1]

    @property
    def num_samples(self) -> int:
        """Number of samples."""
        return len(self[-1])

    def take(self, rows: slice | Array) -> Shard:
        """Return some of the samples."""
        return Shard(*(column[rows] for column in self))


def minibatch_sizes(num_samples: int, batch_size: int) -> list[int]:
    """Return the sizes of the minibatches of a pass.

    A single sample left over joins the minibatch before it: it would be too few for batch normalisation.
    """
    sizes = [min(batch_size, num_samples - start) for start in range(0, num_samples, batch_size)]
    if len(sizes) > 1 and sizes[-1] == 1 < batch_size:
        sizes[-2:] = [batch_size + 1]
    return sizes


class ShardStore:
    """Training set in shards of `shard_size` samples, of which the last may be smaller.

    Samples are shuffled once, so that each shard is a fair sample. In memory, shards are contiguous views; of data that
    is not, only the order is kept, and a shard is gathered when it is asked for, by one thread at a time: a user's
    source need not bear two.

    Attributes:
        shard_samples: number of samples in a full shard.
        is_in_memory: whether shards are there at once.
    """

    def __init__(self, table: Table, shard_size: int, seed: int) -> None:
        self._table = table.reordered(np.random.default_rng(seed).permutation(len(table)))
        self._lock = threading.Lock()
        self.shard_samples = min(shard_size, len(table))
        self.is_in_memory = self._table.is_in_memory
        self._num_shards = math.ceil(len(table) / self.shard_samples)

    def __len__(self) -> int:
        return self._num_shards

    def __getitem__(self, index: int) -> Shard:
        """Return a shard; raises `IndexError` if there is none of that number."""
        if not 0 <= index < self._num_shards:
            raise IndexError(f"there is no shard {index}; there are 0 to {self._num_shards - 1}")
        with self._lock:
            return self._table.take(slice(index * self.shard_samples, (index + 1) * self.shard_samples))

    def num_samples(self, index: int) -> int:
        """Return the size of a shard, without reading it."""
        return min(self.shard_samples, len(self._table) - index * self.shard_samples)

    @property
    def shard_bytes(self) -> int:
        """Size of a full shard."""
        return self.shard_samples * self._table.sample_bytes


class ShardSampler:
    """Draws shard numbers in random order, without replacement until all have been drawn.

    Args:
        seed: numbers that the order depends on, such as the job's seed and the round.
    """

    def __init__(self, num_shards: int, seed: Sequence[int]) -> None:
        self._num_shards = num_shards
        self._random = np.random.default_rng(seed)
        self._left: list[int] = []

    def draw(self, count: int) -> list[int]:
        """Return the numbers of `count` different shards, or of all if there are fewer."""
        count = min(count, self._num_shards)
        drawn, self._left = self._left[:count], self._left[count:]
        if len(drawn) < count:
            fresh, held = self._random.permutation(self._num_shards).tolist(), set(drawn)
            drawn += [number for number in fresh if number not in held][: count - len(drawn)]
            # Numbers already in this draw stay for a later one: they were the last of the former permutation.
            used = set(drawn) - held
            self._left = [number for number in fresh if number not in used]
        return drawn
