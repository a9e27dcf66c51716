"""Encoding of values sent between the parts of a model: as float32, as float16, or quantised to 8 or 4 bits.

Quantised values come with the least value and the step size of each row (sample). Rounding is stochastic, so that it
adds no bias; the draws follow from a seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import torch

Bits: TypeAlias = Literal[32, 16, 8, 4]
"""Bits of a value as it is sent."""

Coded: TypeAlias = dict[str, torch.Tensor]
"""Encoded tensors: ``values``, and with 8 or 4 bits ``least`` and ``step`` of each row."""


def encode(x: torch.Tensor, bits: Bits, seed: int) -> Coded:
    """Encode float32 values (rows, …)."""
    if bits == 32:
        return {"values": x.contiguous()}
    if bits == 16:
        return {"values": x.half()}
    rows = x.reshape(len(x), -1)
    least, most = torch.aminmax(rows, dim=1) if rows.shape[1] else (rows.new_zeros(len(x)),) * 2
    step = (most - least) / ((1 << bits) - 1)
    scaled = (rows - least[:, None]) / torch.where(step > 0, step, 1.0)[:, None]
    chance = torch.rand(scaled.shape, generator=torch.Generator().manual_seed(seed))
    steps = (scaled + chance).floor_().clamp_(0, (1 << bits) - 1).to(torch.uint8)
    return {"values": steps if bits == 8 else packed(steps), "least": least, "step": step}


def decode(coded: Mapping[str, torch.Tensor], shape: Sequence[int], bits: Bits) -> torch.Tensor:
    """Decode to float32 of this shape (rows, …); raises `ValueError` for what `encode` would not have made."""
    rows, width = shape[0], math.prod(shape[1:])
    expected: dict[str, tuple[torch.dtype, tuple[int, ...]]]
    if bits >= 16:
        expected = {"values": (torch.float32 if bits == 32 else torch.float16, tuple(shape))}
    else:
        ends = (torch.float32, (rows,))
        num_bytes = width if bits == 8 else (width + 1) // 2
        expected = {"values": (torch.uint8, (rows, num_bytes)), "least": ends, "step": ends}
    if coded.keys() != expected.keys():
        raise ValueError(
            f"with {bits} bits, {', '.join(expected)} are sent, not {', '.join(sorted(coded)) or 'nothing'}"
        )
    for name, (dtype, expected_shape) in expected.items():
        tensor = coded[name]
        if tensor.dtype != dtype or tuple(tensor.shape) != expected_shape:
            raise ValueError(
                f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}, not {dtype} of shape {expected_shape}; "
                "is it of another cut, or another batch size?"
            )
    values = coded["values"]
    if bits < 16:
        steps = values if bits == 8 else unpacked(values, width)
        values = torch.addcmul(coded["least"][:, None], steps.float(), coded["step"][:, None]).view(*shape)
    values = values.float()
    if not torch.isfinite(values.sum()) and not torch.isfinite(values).all():
        raise ValueError("values are NaN or infinite: training has diverged there; try a lower learning rate")
    return values


def packed(steps: torch.Tensor) -> torch.Tensor:
    """Pack two values of 4 bits into each byte of a row."""
    even = torch.nn.functional.pad(steps, (0, steps.shape[1] % 2))
    return even[:, ::2] | (even[:, 1::2] << 4)


def unpacked(pairs: torch.Tensor, width: int) -> torch.Tensor:
    """Unpack rows of so many values of 4 bits."""
    return torch.stack((pairs & 15, pairs >> 4), dim=2).view(len(pairs), -1)[:, :width]
