"""Tasks of a user's, by import path."""

import torch
from torch import nn

from paceline import Standardise, Task


class Direction(Task):
    """Learns to point the same way; with all that a task may have of its own."""

    def __init__(self, width=1, name="direction"):
        self.width, self.name = width, name

    def model(self):
        return nn.Sequential(Standardise(), nn.Linear(2, self.width))

    def loss(self, model, batch):
        x, y = batch
        return (1 - nn.functional.cosine_similarity(model(x), y)).mean()

    def metrics(self, model, batch):
        x, y = batch
        right = (model(x) > 0) == (y > 0)
        return {"signs": (right.sum(0), len(y)), "largest": (model(x).abs().max(), 1)}

    def summary(self, totals):
        return {**super().summary(totals), "width": float(self.width)}

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.5)

    def schedule(self, round, rounds):
        return 1 / round


class Plain(Task):
    """With what a task must have."""

    def model(self):
        return nn.Linear(2, 1)

    def loss(self, model, batch):
        x, y = batch
        return (model(x) - y).square().mean()


class LossPerSample(Plain):
    def loss(self, model, batch):
        return (model(batch[0]) - batch[1]).square().mean(1)


class LossOfNumber(Plain):
    def loss(self, model, batch):
        return 3.0


class Failing(Plain):
    def loss(self, model, batch):
        raise KeyError("no\nsuch column")


class BadMetrics(Plain):
    def metrics(self, model, batch):
        return {"mae": 3.0}


class NoModule(Plain):
    def model(self):
        return [nn.Linear(2, 1)]


class Frozen(Plain):
    def model(self):
        return nn.Linear(2, 1).requires_grad_(False)


class NoOptimizer(Plain):
    def optimizer(self, model):
        return "SGD"


class Choosy(Plain):
    def __init__(self, width):
        raise ValueError(f"width is {width}")


class Abstract(Task):
    def model(self):
        return nn.Linear(2, 1)


class NoTask:
    def model(self):
        return nn.Linear(2, 1)


def function():
    return Plain()


def double(batch):
    """A transform."""
    x, y = batch
    return 2 * x, y


NUMBER = 3


def nothing(batch):
    """A transform that returns nothing."""
