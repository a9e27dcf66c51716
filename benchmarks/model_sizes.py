"""The models that are sent: fully connected layers as float32 weights and biases, by their widths, input first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

SIZES: dict[str, tuple[int, ...]] = {
    "40k": (784, 50, 20, 10),  # the thesis's TwoNN
    "10M": (784, 2560, 3108, 10),
}


def num_parameters(widths: Sequence[int]) -> int:
    """Weights and biases of all layers."""
    return sum((num_inputs + 1) * num_outputs for num_inputs, num_outputs in pairwise(widths))
