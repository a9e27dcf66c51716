"""Sets of similar samples, and the points that represent them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.learning.shards import Array, Shard


@dataclass(frozen=True, eq=False)
class Sets:
    """Samples by number, each in exactly one set.

    Attributes:
        offsets: start of each set in `indices`, and the end of the last one; int64.
        indices: indices of the samples, set by set; int64.
    """

    offsets: Array
    indices: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> Array:
        """Return the samples of a set."""
        if not 0 <= number < len(self):
            raise IndexError(f"there is no set {number}; there are 0 to {len(self) - 1}")
        return self.indices[self.offsets[number] : self.offsets[number + 1]]

    @property
    def sizes(self) -> Array:
        """Number of samples in each set."""
        return np.diff(self.offsets)

    def is_whole(self, num_samples: int) -> bool:
        """Check that each of so many samples is in exactly one set, and no set is empty."""
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
        x: means of the original samples, on their stored scale; float32.
        y: labels of the points: a set has samples of one class.
        sets: samples that each point represents.
    """

    x: Array
    y: Array
    sets: Sets

    def __len__(self) -> int:
        return len(self.y)

    @property
    def num_samples(self) -> int:
        """Number of samples that the points represent."""
        return len(self.sets.indices)

    @property
    def shard(self) -> Shard:
        """Shard with the points as samples."""
        return Shard(self.x, self.y)
