"""Views of the same images, one for each source that sees them.

Malandrino and Chiasserini (2022, FPL), section III, let each of five sources see an image in a way of its own: blurred,
with a part erased, flipped to either side, or cropped (Fig. 4). They give no details: how much is blurred, erased or
cropped is our choice, and so is what is drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import numpy as np
from msgspec import Meta

from paceline.checks import Positive, PositiveRatio, Spec, check_fields
from paceline.errors import ConfigError
from paceline.learning.shards import Array
from paceline.spelling import check_known

__all__ = ["PAPER_VIEWS", "VIEWS", "ViewSpec", "apply_view"]

_CHUNK_ELEMENTS = 1 << 20  # made at a time, so that a float copy of all is never held
_NUM_DRAWS = 3  # of an image: a shape, and a place in height and width
_MAX_RATIO = 2.0  # of the sides of what is erased


class ViewSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a source sees images; `ValueError` for an unknown kind or a value out of range.

    Attributes:
        kind: name in `VIEWS`.
        sigma_pixels: standard deviation of the Gaussian of ``blur``.
        erased_share: share of an image's area that ``erase`` erases.
        cropped_share: share of an image's area that ``crop`` keeps and stretches over the whole.
    """

    kind: str = "plain"
    sigma_pixels: Positive = 1.5
    erased_share: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    cropped_share: PositiveRatio = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        check_known("view", self.kind, VIEWS)


def apply_view(x: Array, spec: ViewSpec, seed: int) -> Array:
    """Apply a view to images, which keep their type, shape and order.

    Raises `ConfigError` for other samples, which only ``plain`` takes, as they are.

    An image's view follows from the seed and its index alone, not from the other images.

    Args:
        x: uint8 or float32 of shape (N, channels, height, width), as in `paceline.learning.datasets`.
    """
    if spec.kind == "plain":
        return x
    if x.ndim != 4 or x.dtype not in (np.uint8, np.float32):
        raise ConfigError(
            f"view {spec.kind!r} does not fit samples that are {x.dtype} of shape {x.shape[1:]}: "
            'it takes images (channels, height, width) of uint8 or float32; for others, set kind = "plain" in [[view]]'
        )
    view, draws = VIEWS[spec.kind], np.random.default_rng(seed).random((len(x), _NUM_DRAWS), np.float32)
    result = np.empty_like(x, order="C")
    step = max(1, _CHUNK_ELEMENTS // max(1, math.prod(x.shape[1:])))
    for start in range(0, len(x), step):
        chunk = view(x[start : start + step], spec, draws[start : start + step])
        result[start : start + step] = chunk if chunk.dtype == x.dtype else np.rint(chunk)
    return result


def _plain(x: Array, spec: ViewSpec, draws: Array) -> Array:
    return x


def _blur(x: Array, spec: ViewSpec, draws: Array) -> Array:
    """Apply a Gaussian filter, cut off at four standard deviations, with the border's pixels repeated beyond it."""
    radius = int(4 * spec.sigma_pixels + 0.5)
    if radius == 0:
        return x
    weights = np.exp(-0.5 / spec.sigma_pixels**2 * np.arange(-radius, radius + 1) ** 2)
    weights /= weights.sum()
    for axis in (2, 3):
        lines = np.moveaxis(x, axis, -1).astype(np.float64)
        padded = np.pad(lines, (*[(0, 0)] * 3, (radius, radius)), mode="edge")
        length = lines.shape[-1]
        blurred = lines * weights[radius]
        for offset in range(radius):
            mirrored = 2 * radius - offset
            pair = padded[..., offset : offset + length] + padded[..., mirrored : mirrored + length]
            blurred += pair * weights[offset]
        x = np.moveaxis(blurred.astype(np.float32), -1, axis)
    return x


def _erase(x: Array, spec: ViewSpec, draws: Array) -> Array:
    """Set a random rectangle to 0; relative to the image, its sides differ by a factor of 2 at most."""
    height, width = x.shape[2:]
    ratio = _MAX_RATIO ** (2 * draws[:, 0] - 1)
    # At least the share, so that the other side has room for the rest.
    high = np.clip(np.sqrt(spec.erased_share * ratio), spec.erased_share, 1)
    rows, columns = _within(height, high, draws[:, 1]), _within(width, spec.erased_share / high, draws[:, 2])
    is_erased = rows[:, None, :, None] & columns[:, None, None]
    return np.where(is_erased, x.dtype.type(0), x)


def _within(size: int, share: Array, place: Array) -> Array:
    """Return which rows or columns (N, size) of each image are in a span of that share of them."""
    length = np.maximum(np.rint(share * size), 1)[:, None]
    first = np.floor(place[:, None] * (size - length + 1))
    positions = np.arange(size)
    span: Array = (first <= positions) & (positions < first + length)
    return span


def _flip_horizontal(x: Array, spec: ViewSpec, draws: Array) -> Array:
    return x[..., ::-1]


def _flip_vertical(x: Array, spec: ViewSpec, draws: Array) -> Array:
    return x[..., ::-1, :]


def _crop(x: Array, spec: ViewSpec, draws: Array) -> Array:
    """Scale a random part of the image's own aspect ratio to the whole; its place need not be whole pixels."""
    share = math.sqrt(spec.cropped_share)
    return _stretched(_stretched(x.astype(np.float32), 2, share, draws[:, 1]), 3, share, draws[:, 2])


def _stretched(x: Array, axis: int, share: float, place: Array) -> Array:
    """Stretch that share of an axis over all of it, interpolated linearly."""
    size = x.shape[axis]
    centres = (np.arange(size, dtype=np.float32) + 0.5) * share - 0.5
    # Beyond the image, its edge is repeated.
    positions = np.clip(place[:, None] * (size * (1 - share)) + centres, 0, size - 1)
    positions = np.expand_dims(positions, (1, 5 - axis))
    before = np.floor(positions).astype(np.intp)
    left, right = (np.take_along_axis(x, np.minimum(index, size - 1), axis) for index in (before, before + 1))
    weights = positions - before
    stretched: Array = left + (right - left) * weights.astype(np.float32)
    return stretched


VIEWS: dict[str, Callable[[Array, ViewSpec, Array], Array]] = {
    "plain": _plain,
    "blur": _blur,
    "erase": _erase,
    "flip-horizontal": _flip_horizontal,
    "flip-vertical": _flip_vertical,
    "crop": _crop,
}
"""Views, by name: functions of images, the spec and each image's draws, that return images, possibly float32."""

PAPER_VIEWS = tuple(ViewSpec(kind=kind) for kind in ("blur", "erase", "flip-horizontal", "flip-vertical", "crop"))
"""The five views of the paper's Fig. 4, in its order."""
