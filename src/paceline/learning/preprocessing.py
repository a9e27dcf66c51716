"""Preprocessing as part of a model: its first layer takes samples as they are stored, its last gives numbers in units.

Both are fitted once, to the training data, and are buffers: saved with the model, and never trained or sent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.shards import Array

if TYPE_CHECKING:
    from paceline.learning.tables import Table

_CHUNK_VALUES = 1 << 20  # taken at a time for statistics, so that a float copy of all is never held
_MOST_VALUES = 1 << 29  # of larger data, rows spread evenly over it are looked at


class Normalisation(msgspec.Struct, frozen=True):
    """Transformation of stored samples to the input of a model: (x · scale − mean) / std.

    Attributes:
        mean: mean of the scaled training data, one per channel of images, and per feature of all else.
        std: standard deviation, likewise; 1 where the data is constant.
    """

    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        is_finite = all(map(math.isfinite, (self.scale, *self.mean, *self.std)))
        if not is_finite or len(self.mean) != len(self.std) or not self.std or min(self.std) <= 0:
            raise ValueError(f"{self}: needs finite numbers, as many means as stds, and stds above 0")

    @classmethod
    def of(cls, table: Table, column: int = 0, *, takes_whole_numbers: bool = False) -> Normalisation | None:
        """Compute what gives a column mean 0 and variance 1; None for whole numbers, which may be tokens.

        Bytes count as numbers from 0 to 1, as those of images. Raises `ConfigError` for values that are not finite.
        """
        described = table.columns[column]
        dtype = np.dtype(described.dtype)
        if dtype.kind != "f" and dtype != np.uint8 and not (takes_whole_numbers and dtype.kind in "iub"):
            return None
        scale = 1 / 255 if dtype == np.uint8 else 1.0
        mean, std = (moment * scale for moment in _moments(_chunks(table, column)))
        if not np.isfinite(mean + std).all():
            raise ConfigError(f"column {described.name!r} has values that are not finite, or too large to be squared")
        std[std <= 1e-12 * np.abs(mean)] = 1.0  # rounding may leave what is constant a little above 0
        return cls(scale, tuple(mean.tolist()), tuple(std.tolist()))


@np.errstate(invalid="ignore", over="ignore")  # the result tells
def _moments(chunks: Iterator[Array]) -> tuple[Array, Array]:
    """Return mean and standard deviation of each group."""
    first = next(chunks)
    centre = first.mean((0, 2), dtype=np.float64)  # near the mean: squares of what is left lose no digits
    count, total, squares = 0, 0.0, 0.0
    for values in itertools.chain([first], chunks):
        apart = values - centre[:, None]
        count += values.shape[0] * values.shape[2]
        total, squares = total + apart.sum((0, 2)), squares + np.square(apart).sum((0, 2))
    offset = total / count
    return centre + offset, np.sqrt(np.maximum(squares / count - np.square(offset), 0))


def _chunks(table: Table, column: int) -> Iterator[Array]:
    """Yield a column as arrays (samples, groups, values of a group), some samples at a time."""
    shape = table.columns[column].shape
    size = max(1, math.prod(shape))
    stride = max(1, len(table) * size // _MOST_VALUES)
    step = max(1, _CHUNK_VALUES // size) * stride
    for start in range(0, len(table), step):
        end = min(start + step, len(table))
        values = table.take(slice(start, end) if stride == 1 else np.arange(start, end, stride))[column]
        yield values.reshape(
            len(values) if len(shape) > 2 else -1, _num_groups(shape), math.prod(shape[1:]) if len(shape) > 2 else 1
        )


def _num_groups(shape: Sequence[int]) -> int:
    """Count what is standardised by itself: channels, which come first in images, or features, which come last."""
    return 1 if not shape else shape[0] if len(shape) > 2 else shape[-1]


class Standardise(nn.Module):
    """First layer of a model: takes samples as stored, of any type, and gives floats of mean 0 and variance 1.

    Images may lack the axis of their channels, or have it last. In a model of the user's, it is fitted by a run; until
    then, and for tokens, it only makes floats of what it gets.

    Args:
        shape: shape of a sample; None for whatever comes.
    """

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, normalisation: Normalisation | None = None, shape: Sequence[int] | None = None) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(1.0))
        self.register_buffer("shift", torch.tensor(0.0))
        self._shape: tuple[int, ...] | None = None
        if normalisation is not None:
            self.fit(normalisation, () if shape is None else shape)

    def fit(self, normalisation: Normalisation, shape: Sequence[int]) -> None:
        """Set what is done to samples of this shape."""
        place = (-1, *[1] * (len(shape) - 1)) if len(shape) > 2 else (-1,)
        # Rounded once, so that what is fitted again to what was read from a model is the same to the last bit.
        mean, std = (torch.tensor(value, dtype=torch.float64) for value in (normalisation.mean, normalisation.std))
        self.scale = (normalisation.scale / std).view(place).float()
        self.shift = (mean / std).view(place).float()
        self._shape = tuple(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Standardise samples."""
        if self._shape is not None and x.shape[1:] != self._shape:
            x = _arranged(x, self._shape)
        floats = x.to(self.scale.dtype)
        scaled = floats * self.scale if floats is x else floats.mul_(self.scale)  # large data is slow to allocate
        return scaled.sub_(self.shift)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any) -> None:
        for name in ("scale", "shift"):  # what was fitted may have another shape than what was not
            if (found := state_dict.get(prefix + name)) is not None:
                setattr(self, name, torch.empty_like(found, device=getattr(self, name).device))
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def _arranged(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Put the channels of images first, as stored samples have them; anything else stays as it is."""
    found = tuple(x.shape[1:])
    if len(shape) == 3 and found == tuple(shape[1:]) and shape[0] == 1:
        return x[:, None]
    if len(shape) == 3 and found == (*shape[1:], shape[0]):
        return x.permute(0, 3, 1, 2)
    return x


class Rescale(nn.Module):
    """Last layer of a model: puts standardised outputs into the units of the targets."""

    std: torch.Tensor
    mean: torch.Tensor

    def __init__(self, normalisation: Normalisation) -> None:
        super().__init__()
        self.register_buffer("std", torch.tensor(normalisation.std) / normalisation.scale)
        self.register_buffer("mean", torch.tensor(normalisation.mean) / normalisation.scale)

    def forward(self, outputs: Any) -> torch.Tensor:
        """Rescale outputs, or the logits among them."""
        return logits_of(outputs) * self.std + self.mean


def logits_of(outputs: Any) -> torch.Tensor:
    """Return the outputs that a loss compares: those named ``logits``, or the first, where there are several."""
    if isinstance(outputs, torch.Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        found = outputs["logits"] if "logits" in outputs else next(iter(outputs.values()))
    else:
        found = getattr(outputs, "logits", None)
        found = outputs[0] if found is None else found
    tensor: torch.Tensor = found
    return tensor


class WholeModel(nn.Module):
    """A model that takes samples as they are stored, and gives results in the units of the targets.

    Args:
        first: what the first input is put through.
    """

    def __init__(self, model: nn.Module, first: Standardise | None, last: Rescale | None) -> None:
        super().__init__()
        self.preprocessing = first
        self.model = model
        self.postprocessing = last

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Compute the outputs for inputs as stored."""
        if self.preprocessing is not None:  # there is one input, whatever its name
            inputs, named = (self.preprocessing(*inputs, *named.values()),), {}
        outputs = self.model(*inputs, **named)
        return outputs if self.postprocessing is None else self.postprocessing(outputs)

    @property
    def learned(self) -> nn.Module:
        """All behind the preprocessing: a module of the same parameters."""
        return self.model if self.postprocessing is None else WholeModel(self.model, None, self.postprocessing)


def fitted_buffers(model: nn.Module) -> set[str]:
    """Return the names of what preprocessing holds, which training does not change."""
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if isinstance(module, Standardise | Rescale)
        for name, _ in module.named_buffers(recurse=False)
    }
