"""Convolutional networks for small images.

`alexnet`, `squeezenet` and `mobilenet_v2` are those of EdgeGossip (Han et al., 2021, §4.1), made for 224×224 pixels.
Here they halve an image less often, to suit 32×32 pixels; each docstring lists the differences. None has dropout, which
draws from torch's own generator: training would not follow from its seed. Parameters are counted for 3×32×32 and 10
classes. `leaf_cnn` and `resnet_8` are chains of named layers, so that a junction can be put before one by its name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import nn

from paceline.errors import ConfigError


def check_images(name: str, input_shape: Sequence[int], smallest: int) -> None:
    """Raise `ConfigError` unless samples are images of at least `smallest` pixels in height and width."""
    if len(input_shape) != 3 or min(input_shape[1:]) < smallest:
        raise ConfigError(
            f"model {name!r} does not fit inputs of shape {tuple(input_shape)}: "
            f"it takes images (channels, height, width) of at least {smallest}×{smallest}"
        )


def alexnet(input_shape: Sequence[int], num_classes: int) -> nn.Module:
    """AlexNet (Krizhevsky et al., 2012), as it is usual for CIFAR-10: 2,472,266 parameters.

    The five convolutions are those of the one-column version (Krizhevsky, 2014), poolings are 2×2 instead of 3×3, and
    the first convolution is padded by 5 instead of 2, so that its 4-fold stride leaves 8×8. One linear layer follows in
    place of three: of the original's 61 million parameters, 58.6 million are in these. Weights start as He et al.
    (2015) draw them: with torch's own, which shrink from layer to layer, it learns nothing in its first 100 steps.
    """
    check_images("alexnet", input_shape, 29)  # 8×8 after the first convolution, and one pixel after three poolings
    model = nn.Sequential(
        *(nn.Conv2d(input_shape[0], 64, 11, stride=4, padding=5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),  # of larger images, the mean over what is left
        nn.Linear(256, num_classes),
    )
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return model


def squeezenet(input_shape: Sequence[int], num_classes: int) -> nn.Module:
    """SqueezeNet 1.1 (Iandola et al., 2016): 727,626 parameters, as many as the original has for 10 classes.

    The first convolution has a stride of 1 instead of 2, and poolings are 2×2 instead of 3×3.
    """
    check_images("squeezenet", input_shape, 8)  # one pixel after three poolings
    return nn.Sequential(
        *(nn.Conv2d(input_shape[0], 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(_Fire(64, 16, 64), _Fire(128, 16, 64), nn.MaxPool2d(2)),
        *(_Fire(128, 32, 128), _Fire(256, 32, 128), nn.MaxPool2d(2)),
        *(_Fire(256, 48, 192), _Fire(384, 48, 192), _Fire(384, 64, 256), _Fire(512, 64, 256)),
        nn.Conv2d(512, num_classes, 1),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


class _Fire(nn.Module):
    """A squeeze to few channels, expanded by 1×1 and 3×3 convolutions side by side."""

    def __init__(self, num_in: int, num_few: int, num_each: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(num_in, num_few, 1)
        self.small = nn.Conv2d(num_few, num_each, 1)
        self.large = nn.Conv2d(num_few, num_each, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        few = torch.relu(self.squeeze(x))
        return torch.relu(torch.cat([self.small(few), self.large(few)], dim=1))


# Bottlenecks of MobileNetV2 (Sandler et al., 2018, table 2): expansion, channels, count, stride of the first.
_BOTTLENECKS = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


def mobilenet_v2(input_shape: Sequence[int], num_classes: int) -> nn.Module:
    """MobileNetV2 (Sandler et al., 2018): 2,236,682 parameters, as many as the original has for 10 classes.

    The first convolution has a stride of 1 instead of 2. Many leave out a second stride for CIFAR-10, which makes it
    four times as slow.
    """
    check_images("mobilenet-v2", input_shape, 1)
    layers, num_in = [*_normalised(nn.Conv2d(input_shape[0], 32, 3, padding=1, bias=False)), nn.ReLU6()], 32
    for expansion, num_out, count, stride in _BOTTLENECKS:
        for number in range(count):
            layers.append(_Bottleneck(num_in, num_out, expansion, 1 if number else stride))
            num_in = num_out
    layers += [*_normalised(nn.Conv2d(num_in, 1280, 1, bias=False)), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, num_classes))


class _Bottleneck(nn.Module):
    """An inverted residual block: expand, convolve each channel by itself, project; add the input if shapes agree."""

    def __init__(self, num_in: int, num_out: int, expansion: int, stride: int) -> None:
        super().__init__()
        self.is_added = stride == 1 and num_in == num_out
        wide = expansion * num_in
        widen = [*_normalised(nn.Conv2d(num_in, wide, 1, bias=False)), nn.ReLU6()] if expansion > 1 else []
        depthwise = nn.Conv2d(wide, wide, 3, stride=stride, padding=1, groups=wide, bias=False)
        self.layers = nn.Sequential(
            *widen, *_normalised(depthwise), nn.ReLU6(), *_normalised(nn.Conv2d(wide, num_out, 1, bias=False))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = self.layers(x)
        return x + changed if self.is_added else changed


def _normalised(convolution: nn.Conv2d) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(convolution.out_channels)]


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
        "stem": nn.Sequential(*_group_normalised(input_shape[0], 16), nn.ReLU()),
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
        self.layers = nn.Sequential(
            *_group_normalised(num_in, num_out, stride), nn.ReLU(), *_group_normalised(num_out, num_out)
        )
        is_same = stride == 1 and num_in == num_out
        self.shortcut = nn.Identity() if is_same else nn.Conv2d(num_in, num_out, 1, stride=stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layers(x) + self.shortcut(x))


def _group_normalised(num_in: int, num_out: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(num_in, num_out, 3, stride=stride, padding=1, bias=False)
    return [convolution, nn.GroupNorm(num_out // 8, num_out)]
