"""Models by name, and users' own models by import path.

The papers end each network in a softmax. Here every model returns logits, and the softmax is part of the loss. Sizes
below are for images of 1×28×28 and 10 classes, and are derived for other shapes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from torch import nn

from paceline import plugins
from paceline.checks import Spec, check_fields
from paceline.errors import ConfigError
from paceline.learning.convnets import alexnet, check_images, leaf_cnn, mobilenet_v2, resnet_8, squeezenet
from paceline.learning.text_models import bag_of_tokens, lstm
from paceline.spelling import check_known

if TYPE_CHECKING:
    from paceline.learning.tables import Column

__all__ = ["MODELS", "ModelSpec", "build"]


class ModelSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Model of a job: its ``[model]`` table, sent to devices as it is; `ValueError` for a name and an import at once.

    Attributes:
        name: name in `MODELS`; None, without an import either, for the usual one of the task, or its own.
        import_path: ``package.module:Factory`` or ``path/to/file.py:Factory``, encoded as ``import``. The factory is
            called without arguments. Devices import only what their owner allows.
        start: parameters to start from instead of new ones: the folder of a run, or a .safetensors file.
    """

    name: str | None = None
    import_path: str | None = msgspec.field(default=None, name="import")
    start: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.name is not None and self.import_path is not None:
            given = f"name {self.name!r} and import {self.import_path!r}"
            raise ValueError(f"a model has either a name or an import, not {given}")
        if self.name is not None:
            check_known("model", self.name, MODELS)
        if self.import_path is not None:
            plugins.split_path(self.import_path)

    @property
    def is_given(self) -> bool:
        """Whether the job names a model."""
        return self.name is not None or self.import_path is not None

    @classmethod
    def of(cls, factory: Callable[[], nn.Module], **fields: Any) -> ModelSpec:
        """Refer to a class or function at the top level of a module, or of the running script, that makes the model."""
        return cls(import_path=plugins.path_of(factory), **fields)


def build(
    spec: ModelSpec, input_shape: Sequence[int], num_outputs: int, *, allowed: Collection[str] | None = ()
) -> nn.Module:
    """Build a model with random weights, whose output has shape (batch, num_outputs).

    Args:
        input_shape: shape of one sample: (channels, height, width), (features,), or (tokens,).
        num_outputs: number of logits or other values; for language models, in each place. A model by import path is
            trusted to fit both.
        allowed: import paths that this device allows, see `plugins.load_object`; None for any.

    Raises:
        ConfigError: the model does not fit the shape, is not allowed (then nothing is imported), or cannot be made.
    """
    if spec.name is not None:
        if not input_shape or min(*input_shape, num_outputs) < 1:
            raise ConfigError(f"no model fits samples of shape {tuple(input_shape)} and {num_outputs} outputs")
        return MODELS[spec.name](input_shape, num_outputs)
    assert spec.import_path is not None
    factory = plugins.load_object(spec.import_path, "model", allowed)
    what, name = f"model {spec.import_path!r}", plugins.split_path(spec.import_path)[1]
    if not callable(factory):
        raise ConfigError(f"{what}: {name!r} cannot be called, it is of type {type(factory).__name__}")
    model = plugins.guarded(what, f"calling {name}()", factory)
    if not isinstance(model, nn.Module):
        raise ConfigError(f"{what}: {name}() made no torch.nn.Module but a {type(model).__name__}")
    return model


@dataclass(frozen=True)
class _Dense:
    """Factory of a feed-forward network: ReLU after each hidden layer of these widths."""

    widths: tuple[int, ...]

    def __call__(self, input_shape: Sequence[int], num_classes: int) -> nn.Sequential:
        layers: list[nn.Module] = [nn.Flatten()]
        for num_in, num_out in itertools.pairwise((math.prod(input_shape), *self.widths)):
            layers += [nn.Linear(num_in, num_out), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(self.widths[-1], num_classes))


class _Convolution(NamedTuple):
    num_filters: int
    kernel_size: int
    padding: int


@dataclass(frozen=True)
class _Convolutional:
    """Factory of a convolutional network: each convolution, 2×2 max-pooling, ReLU; then a feed-forward network."""

    name: str
    convolutions: tuple[_Convolution, ...]
    widths: tuple[int, ...]

    def __call__(self, input_shape: Sequence[int], num_classes: int) -> nn.Module:
        check_images(self.name, input_shape, self._smallest_side())
        layers: list[nn.Module] = []
        channels, *sides = input_shape
        for num_filters, kernel_size, padding in self.convolutions:
            convolution = nn.Conv2d(channels, num_filters, kernel_size, padding=padding)
            layers += [convolution, nn.MaxPool2d(2), nn.ReLU()]
            channels = num_filters
            sides = [(side + 2 * padding - kernel_size + 1) // 2 for side in sides]
        return nn.Sequential(*layers, *_Dense(self.widths)((channels, *sides), num_classes))

    def _smallest_side(self) -> int:
        """Return the side of the smallest image of which a pixel is left after the last pooling."""
        side = 1
        for convolution in reversed(self.convolutions):
            side = 2 * side + convolution.kernel_size - 1 - 2 * convolution.padding
        return side


MODELS: dict[str, Callable[[Sequence[int], int], nn.Module]] = {
    # TwoNN: Mays (2023) §3.4.1.
    "two-nn": _Dense((50, 20)),
    # ThreeNN, ConvNet, FashionNet: ibid., appendix A.
    "three-nn": _Dense((500, 300, 100)),
    "conv-net": _Convolutional("conv-net", (_Convolution(6, 3, 0), _Convolution(16, 3, 0)), (200, 100)),
    "fashion-net": _Convolutional("fashion-net", (_Convolution(16, 3, 1), _Convolution(32, 3, 1)), (1000, 500)),
    # Ibid., §3.4.2.2, which gives filters and widths. Kernels of 5×5 with a padding of 2 are our choice: poolings then
    # halve the image, as stated, and it is the network of 1,663,370 parameters of McMahan et al. (2017, FedAvg).
    "deadline-net": _Convolutional("deadline-net", (_Convolution(32, 5, 2), _Convolution(64, 5, 2)), (512,)),
    # Mohammad and Sorour (2019, arXiv 1905.01656) §V-A. ReLU is our choice. Their model size counts the weights
    # without the biases.
    "mel-net": _Dense((300, 124, 60)),
    # LeCun et al. (1998), as in EdgeGossip (Han et al., 2021): 61,706 parameters. Max-pooling and ReLU are the usual
    # modern reading; the padding of 2 makes 28×28 the 32×32 of the original.
    "lenet-5": _Convolutional("lenet-5", (_Convolution(6, 5, 2), _Convolution(16, 5, 0)), (120, 84)),
    # Ibid., for small images: see `paceline.learning.convnets`.
    "alexnet": alexnet,
    "squeezenet": squeezenet,
    "mobilenet-v2": mobilenet_v2,
    # Malandrino and Chiasserini (2022, FPL), and one of our choice, both with named layers.
    "leaf-cnn": leaf_cnn,
    "resnet-8": resnet_8,
    # For tokens: the next-character network of McMahan et al. (2017, FedAvg), with one layer and widths of our choice.
    "lstm": lstm,
    "bag-of-tokens": bag_of_tokens,
}
"""Factories by name: from the shape of a sample and the number of outputs to a model."""

TOKEN_MODELS = frozenset({"lstm", "bag-of-tokens"})
"""Those that take whole numbers, by which they look something up; all others compute with what they are given."""


def check_inputs(spec: ModelSpec, column: Column, *, is_whole: bool) -> None:
    """Raise `ConfigError` if a named model does not take numbers of this kind.

    Args:
        column: inputs as they are stored.
        is_whole: whether they come to the model as whole numbers.
    """
    if spec.name is None or is_whole == (spec.name in TOKEN_MODELS):
        return
    found = f"column {column.name!r} is {column.dtype}"
    if is_whole:
        tokens = " or ".join(sorted(TOKEN_MODELS))
        raise ConfigError(
            f"model {spec.name!r} takes real numbers, or bytes as of images; {found}, as tokens are: store them as "
            f"float32, or choose {tokens}"
        )
    raise ConfigError(f"model {spec.name!r} takes tokens; {found}: store tokens as int64, or choose another model")
