"""A model by import path, for what the named ones do not have."""

from torch import nn


class Normalised(nn.Sequential):
    """With batch normalisation, for digits."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
