"""Small datasets in files, made up."""

import numpy as np

from paceline.learning.datasets import DataSpec, load


def small(shape=(28, 28), num_classes=10, num_train=30, num_test=12, seed=0):
    random = np.random.default_rng(seed)
    return {
        "x_train": random.integers(0, 256, (num_train, *shape), dtype=np.uint8),
        "y_train": np.arange(num_train, dtype=np.uint8) % num_classes,
        "x_test": random.integers(0, 256, (num_test, *shape), dtype=np.uint8),
        "y_test": np.arange(num_test, dtype=np.uint8) % num_classes,
    }


def write_npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def arrays_of(dataset, rows=slice(None), parts=("train", "test")):
    """Arrays of a dataset, as files have them; `rows` are taken of each part."""
    shards = {part: getattr(dataset, part).take(rows) for part in parts}
    return {f"{name}_{part}": getattr(shard, name) for part, shard in shards.items() for name in "xy"}


def load_path(path):
    return load(DataSpec(path=str(path)))
