"""Models by import path, for what the named ones do not have."""

import torch
from torch import nn


class Line(nn.Sequential):
    """Two features in, two logits out, and nothing else: steps can be computed by hand."""

    def __init__(self):
        super().__init__(nn.Linear(2, 2, bias=False))


class Counting(nn.Sequential):
    """With batch normalisation, whose buffers hold floats and a counter."""

    def __init__(self):
        super().__init__(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


class Idle(nn.Module):
    """With a parameter that no output depends on, and one that is not trained."""

    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)
        self.fixed = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x):
        return self.used(x) * self.fixed


class Tied(nn.Module):
    """Two layers of the same weights."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Skipping(nn.Module):
    """Its children are not all of it: its forward adds what came in."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.second(self.first(x)) + x


class SkippingDigits(nn.Module):
    """Its children are not all of it: its forward adds something to what digits become."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Flatten(), nn.Linear(64, 10)

    def forward(self, x):
        return self.second(self.first(x)) + 1


class Backwards(nn.Module):
    """Its children are named in another order than they are used."""

    def __init__(self):
        super().__init__()
        self.last, self.first = nn.Linear(5, 2), nn.Linear(2, 5)

    def forward(self, x):
        return self.last(self.first(x))


class Childless(nn.Module):
    """All in one."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 2))

    def forward(self, x):
        return x @ self.weight


class Declaring(nn.Sequential):
    """May be cut in one place, by its own word; and in one that is none."""

    cuts = ("1", "nowhere")

    def __init__(self):
        super().__init__(nn.Linear(2, 3), nn.Linear(3, 2))


class Normalised(nn.Sequential):
    """A chain with buffers, and dropout."""

    def __init__(self):
        super().__init__(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))


class Digits(nn.Sequential):
    """For images of 8×8 pixels, and ten classes."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))


class LeftBehind(nn.Module):
    """Makes a tensor on the CPU, wherever it is itself."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x) + torch.ones(2)
