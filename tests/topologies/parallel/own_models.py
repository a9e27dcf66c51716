"""Models and tasks by import path, for what the named ones do not have."""

import os
from pathlib import Path

from torch import nn

import paceline


class Normalised(nn.Sequential):
    """With batch normalisation, for digits."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))


class Frozen(nn.Module):
    """A body that is not trained, with more parameters than the head on it."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 256), nn.Linear(256, 10)
        self.body.requires_grad_(False)

    def forward(self, images):
        return self.head(self.body(images.flatten(1)).relu())


class Domains(nn.Module):
    """With batch normalisation of features that may differ from device to device."""

    def __init__(self):
        super().__init__()
        self.bn, self.hidden, self.head = nn.BatchNorm1d(4), nn.Linear(4, 16), nn.Linear(16, 2)

    def forward(self, features):
        return self.head(self.hidden(self.bn(features)).relu())


class Recorded(paceline.Task):
    """Classes of `Domains`; each process writes down the statistics that it begins a minibatch with."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def model(self):
        return Domains()

    def loss(self, model, batch):
        x, y = batch
        if model.training:
            with open(self.folder / str(os.getpid()), "a") as file:
                print(int(model.bn.num_batches_tracked), *model.bn.running_mean.tolist(), file=file)
        return nn.functional.cross_entropy(model(x), y.long())
