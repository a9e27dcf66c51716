"""A task so small that thousands of runs of it can be played: 160 points in space, 3 classes, 51 parameters."""

import numpy as np
from torch import nn

NUM_TRAIN, NUM_TEST, NUM_FEATURES, NUM_CLASSES = 160, 30, 4, 3

MODEL = {"import": "tests.chaos.small:Model"}


class Model(nn.Sequential):
    """Two layers."""

    def __init__(self):
        super().__init__(nn.Linear(NUM_FEATURES, 6), nn.ReLU(), nn.Linear(6, NUM_CLASSES))


def write_points(path):
    """Write points around the centres of their classes, to train on and to test with: the same each time."""
    arrays = {}
    for part, count, seed in (("train", NUM_TRAIN, 1), ("test", NUM_TEST, 2)):
        rng = np.random.default_rng(seed)
        classes = arrays[f"y_{part}"] = np.arange(count, dtype=np.uint8) % NUM_CLASSES
        arrays[f"x_{part}"] = (rng.normal(size=(count, NUM_FEATURES)) + classes[:, None]).astype(np.float32)
    np.savez(path, **arrays)
    return path
