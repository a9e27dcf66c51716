"""Small jobs, data and shards to train on."""

import msgspec
import numpy as np

from paceline.learning.datasets import Dataset, DataSpec, load
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.tables import ArrayTable, Column
from paceline.learning.training_spec import TrainingSpec


def pairs(shape=(2,), dtype="float32"):
    """The columns of samples that are an input and a class."""
    return Column("x", dtype, shape), Column("y", "uint8", ())


def make_spec(model="Line", **changes):
    """A spec for two features and two classes; `model` is named, or one of `own_models`."""
    is_own = model[0].isupper()
    fields = {
        "model": ModelSpec(import_path=f"tests.learning.own_models:{model}") if is_own else ModelSpec(name=model),
        "optimizer": OptimizerSpec(),
        "columns": pairs(),
        "num_outputs": 2,
        "batch_size": 4,
    }
    return TrainingSpec(**fields | changes)


def make_model(model="Line", **changes):
    return LocalModel(make_spec(model, **changes), allowed=None)


def make_shards(*sizes, seed=0):
    """Shards of so many samples of two features and two classes."""
    random = np.random.default_rng(seed)
    return [
        Shard(random.normal(size=(size, 2)).astype(np.float32), random.integers(0, 2, size).astype(np.uint8))
        for size in sizes
    ]


def make_dataset(structure="tuple", **columns):
    """A dataset of these columns, which it is trained and tested on."""
    table = ArrayTable({name: np.asarray(column) for name, column in columns.items()}, structure)
    return Dataset("made up", table, table)


def fit_model(dataset, allowed=None, **fields):
    """A model for a dataset, fitted to it."""
    fields = {"model": ModelSpec(), "optimizer": OptimizerSpec(), "batch_size": 4, **fields}
    return LocalModel(TrainingSpec.fitted(dataset, **fields), allowed)


def digits_spec(**changes):
    """Two-nn on digits, and the digits."""
    data = load(DataSpec(name="digits"))
    fields = {"model": ModelSpec(name="two-nn"), "optimizer": OptimizerSpec(), "batch_size": 32}
    return TrainingSpec.fitted(data, **fields | changes), data


def from_network(fields, kind):
    """What a device makes of a message."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=kind)


def are_equal(one, other):
    """Whether two states are the same, bit for bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
