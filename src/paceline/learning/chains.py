"""Networks that are chains of named layers, so that a junction can be put before one of them by its name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import nn

from paceline.learning.convnets import check_images


def leaf_cnn(input_shape: Sequence[int], num_classes: int) -> nn.Module:
    """The FEMNIST network of LEAF (Caldas et al., 2018), which Malandrino and Chiasserini (2022, FPL) cut in two.

    6,603,710 parameters for 1×28×28 and 62 classes: 832 in ``c1``, 51,264 in ``c2``, 6,424,576 in ``f1`` and 127,038 in
    ``f2``. They put junctions before ``c2``, ``f1`` or ``f2``; here one may come before any layer but the first.
    """
    check_images("leaf-cnn", input_shape, 4)  # one pixel after two poolings
    channels, height, width = input_shape
    layers = {
        "c1": nn.Conv2d(channels, 32, 5, padding=2),
        "c1_relu": nn.ReLU(),
        "c1_pool": nn.MaxPool2d(2),
        "c2": nn.Conv2d(32, 64, 5, padding=2),
        "c2_relu": nn.ReLU(),
        "c2_pool": nn.MaxPool2d(2),
        "flatten": nn.Flatten(),
        "f1": nn.Linear(64 * (height // 4) * (width // 4), 2048),
        "f1_relu": nn.ReLU(),
        "f2": nn.Linear(2048, num_classes),
    }
    return nn.Sequential(OrderedDict(layers))


class ResNet(nn.Sequential):
    """A residual network as a chain of named layers; see `resnet_8`.

    Attributes:
        cuts: layers before which a junction may be placed; never within a block.
    """

    cuts: ClassVar[tuple[str, ...]] = ("block2", "block3", "f1")


def resnet_8(input_shape: Sequence[int], num_classes: int) -> nn.Module:
    """A ResNet of eight layers for small images: 77,850 parameters for 3×32×32 and 10 classes.

    He et al. (2016) built networks of 6n + 2 layers for CIFAR-10; this is n = 1. Where a block changes the shape, its
    shortcut is a 1×1 convolution. GroupNorm (Wu and He, 2018) replaces their BatchNorm, so that a sample's output does
    not depend on other samples and minibatches may be small. Eight channels per group are our choice.
    """
    check_images("resnet-8", input_shape, 1)
    layers = {
        "stem": nn.Sequential(*_normalised(input_shape[0], 16), nn.ReLU()),
        "block1": _Block(16, 16, 1),
        "block2": _Block(16, 32, 2),
        "block3": _Block(32, 64, 2),
        "pool": nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten(),
        "f1": nn.Linear(64, num_classes),
    }
    return ResNet(OrderedDict(layers))


class _Block(nn.Module):
    """Two 3×3 convolutions, added to the input."""

    def __init__(self, num_in: int, num_out: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_normalised(num_in, num_out, stride), nn.ReLU(), *_normalised(num_out, num_out))
        is_same = stride == 1 and num_in == num_out
        self.shortcut = nn.Identity() if is_same else nn.Conv2d(num_in, num_out, 1, stride=stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layers(x) + self.shortcut(x))


def _normalised(num_in: int, num_out: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(num_in, num_out, 3, stride=stride, padding=1, bias=False)
    return [convolution, nn.GroupNorm(num_out // 8, num_out)]
