"""What a source has of the data: its view of every sample, and labels only where it trains a model of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.datasets import Dataset, DataSpec
from paceline.learning.model_parts import epoch_order
from paceline.learning.shards import Array, Shard, minibatch_sizes
from paceline.learning.views import apply_view
from paceline.topologies.split.messages import SplitTerms


@dataclass(frozen=True)
class Samples:
    """A source's samples, in the order in which all sources have them."""

    train: Shard
    test: Shard


def load_samples(terms: SplitTerms, number: int, stored_at: str | None = None, *, is_viewed: bool = False) -> Samples:
    """Load a source's view of the data that all have, or what it has stored; raises `ConfigError`.

    Args:
        number: number of the source; what its view draws at random follows from it.
        stored_at: path, or import path, of samples in the trunk's order; with labels where a source needs them.
        is_viewed: whether it is seen as the trunk says, as data by name is; else it is taken as it is.
    """
    if stored_at is None and not terms.data:
        raise ConfigError("the trunk's data is a file of its own; say where this source's view of it is, with --data")
    if stored_at is None:
        data, where = datasets.load(DataSpec(name=terms.data)), f"dataset {terms.data}"
    else:
        data, where = datasets.load_stored(stored_at, terms.reading), stored_at
    if terms.scheme == "gfl" and len(data.train.columns) < 2:
        raise ConfigError(f"{where}: there are no labels, and sources of gfl train a model of their own")
    wanted = {"train": terms.num_samples, "test": terms.num_test_samples}
    for (name, count), table in zip(wanted.items(), (data.train, data.test), strict=True):
        shape = table.columns[0].shape
        if len(table) != count or shape != terms.training.input_shape:
            raise ConfigError(
                f"{where}: x_{name} has {len(table)} samples of shape {shape}; the trunk has {count} of shape "
                f"{terms.training.input_shape}: sources see the same samples, in the same order"
            )
    if stored_at is not None and not is_viewed:
        return Samples(data.train.take(slice(None)), data.test.take(slice(None)))
    return view_of(data, terms, number)


def view_of(data: Dataset, terms: SplitTerms, number: int) -> Samples:
    """Apply the view of the source of this number to a dataset."""
    seed = 2 * (terms.training.seed * 1_000_003 + number)
    train, test = data.train.take(slice(None)), data.test.take(slice(None))
    return Samples(
        Shard(apply_view(train.x, terms.view, seed), train.y), Shard(apply_view(test.x, terms.view, seed + 1), test.y)
    )


class Minibatches:
    """The minibatches of each epoch, by their samples: the same for all nodes of a job."""

    def __init__(self, terms: SplitTerms) -> None:
        self._terms = terms
        self._sizes = minibatch_sizes(terms.num_samples, terms.training.batch_size)
        self._epoch = 0
        self._batches: tuple[torch.Tensor, ...] = ()

    def samples(self, epoch: int, number: int) -> Array:
        """Return the indices of a minibatch's samples."""
        if epoch != self._epoch:
            order = epoch_order(self._terms.num_samples, self._terms.training.seed, epoch)
            self._epoch, self._batches = epoch, torch.split(order, self._sizes)
        batch: Array = self._batches[number].numpy()
        return batch

    def size(self, number: int) -> int:
        """Count the samples of a minibatch."""
        return self._sizes[number]


def as_tensor(column: Array) -> torch.Tensor:
    """Make a tensor of samples, or labels, as they are stored."""
    return torch.from_numpy(np.ascontiguousarray(column))
