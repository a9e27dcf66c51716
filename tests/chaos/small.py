"""A task so small that thousands of runs of it can be played: 160 points in the plane, 3 classes, 51 parameters."""

import numpy as np
from torch import nn

NUM_TRAIN, NUM_TEST, NUM_FEATURES, NUM_CLASSES = 160, 30, 4, 3


class Points:
    """Points around the centres of their classes, the same each time."""

    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self._y = rng.integers(0, NUM_CLASSES, count)
        self._x = (rng.normal(size=(count, NUM_FEATURES)) + self._y[:, None]).astype(np.float32)

    def __len__(self):
        return len(self._y)

    def __getitem__(self, number):
        return self._x[number], int(self._y[number])


def points():
    """Points to train on, and to test with."""
    return Points(NUM_TRAIN, 1), Points(NUM_TEST, 2)


class Model(nn.Sequential):
    """Two layers."""

    def __init__(self):
        super().__init__(nn.Linear(NUM_FEATURES, 6), nn.ReLU(), nn.Linear(6, NUM_CLASSES))


DATA = {"import": "tests.chaos.small:points"}
MODEL = {"import": "tests.chaos.small:Model"}
