"""Sets of samples that are alike, and the points that stand for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.learning.shards import Array, Shard


@dataclass(frozen=True, eq=False)
class Sets:
    """Samples by number, each in exactly one set.

    Attributes:
        offsets: where each set begins in `indices`, and at last where all end; int64, one more than there are sets.
        indices: the samples' numbers, set by set; int64.
    """

    offsets: Array
    indices: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> Array:
        """The samples of a set."""
        if not 0 <= number < len(self):
            raise IndexError(f"there is no set {number}; there are 0 to {len(self) - 1}")
        return self.indices[self.offsets[number] : self.offsets[number + 1]]

    @property
    def sizes(self) -> Array:
        """How many samples each set has."""
        return np.diff(self.offsets)

    def is_whole(self, num_samples: int) -> bool:
        """Whether each of so many samples is in exactly one set, and no set is empty."""
        are_offsets = self.offsets.ndim == 1 and len(self.offsets) > 1 and self.offsets[0] == 0
        return (
            are_offsets
            and bool((self.sizes > 0).all())
            and self.indices.shape == (num_samples,) == (self.offsets[-1],)
            and np.array_equal(np.sort(self.indices), np.arange(num_samples))
        )


@dataclass(frozen=True, eq=False)
class AggregatedPoints:
    """A point for each set of samples.

    Attributes:
        x: the means of the original samples, on the scale on which these are stored; float32.
        y: their labels: a set has samples of one class.
        sets: which samples each point stands for.
    """

    x: Array
    y: Array
    sets: Sets

    def __len__(self) -> int:
        return len(self.y)

    @property
    def num_samples(self) -> int:
        """How many samples the points stand for."""
        return len(self.sets.indices)

    @property
    def shard(self) -> Shard:
        """The points as samples to train on, or to find the losses of."""
        return Shard(self.x, self.y)
