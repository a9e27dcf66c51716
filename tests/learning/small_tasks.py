"""Small tasks and shards to train on."""

import numpy as np

from paceline.learning.datasets import DataSpec, Normalisation, load
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard

AS_STORED = Normalisation(1.0, (0.0,), (1.0,))


def make_task(model="Line", **changes):
    """A task of two features and two classes; `model` is named, or one of `own_models`."""
    is_own = model[0].isupper()
    fields = {
        "model": ModelSpec(import_path=f"tests.learning.own_models:{model}") if is_own else ModelSpec(name=model),
        "optimizer": OptimizerSpec(),
        "normalisation": AS_STORED,
        "input_shape": (2,),
        "num_classes": 2,
        "batch_size": 4,
    }
    return Task(**fields | changes)


def make_model(model="Line", **changes):
    return LocalModel(make_task(model, **changes), allowed=None)


def make_shards(*sizes, seed=0):
    """Shards of so many samples of two features and two classes."""
    random = np.random.default_rng(seed)
    return [
        Shard(random.normal(size=(size, 2)).astype(np.float32), random.integers(0, 2, size).astype(np.uint8))
        for size in sizes
    ]


def digits_task(**changes):
    """Two-nn on digits, and the digits."""
    data = load(DataSpec(name="digits"))
    fields = {
        "normalisation": data.normalisation,
        "input_shape": data.input_shape,
        "num_classes": data.num_classes,
        "batch_size": 32,
    }
    return make_task("two-nn", **fields | changes), data


def are_equal(one, other):
    """Whether two states are the same, bit for bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
