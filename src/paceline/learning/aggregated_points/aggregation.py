"""The three steps from samples to points, each on its own and all together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from paceline.errors import ConfigError
from paceline.learning.aggregated_points.division import DIVISIONS
from paceline.learning.aggregated_points.reduction import REDUCTIONS
from paceline.learning.aggregated_points.sets import AggregatedPoints, Sets
from paceline.learning.aggregated_points.specs import PointsSpec
from paceline.learning.shards import Array

Progress: TypeAlias = Callable[[int, int], None]
"""Called after each class with the number of classes done, and of all; may raise to stop the work."""

_CHUNK_VALUES = 1 << 20  # averaged at a time: about what fits a cache, without a float copy of all


def aggregate(x: Array, y: Array, spec: PointsSpec, progress: Progress | None = None) -> AggregatedPoints:
    """Make a point for each set of about `spec.ratio` similar samples of one class.

    Args:
        x: samples as stored: uint8 or float32, one or more.
        y: their labels; `ConfigError` if they do not match the samples.
    """
    if not len(y) or len(x) != len(y) or x.ndim < 2 or y.ndim != 1 or y.dtype.kind not in "iu":
        raise ConfigError(f"no points can be made of samples of shape {x.shape} and labels of shape {y.shape}")
    return average(x, y, divide(reduce(x, spec), y, spec, progress))


def reduce(x: Array, spec: PointsSpec) -> Array:
    """Reduce each sample to a few float32 features (step 1)."""
    return REDUCTIONS[spec.reduction](x, spec.ratio, np.random.default_rng(spec.seed))


def divide(features: Array, y: Array, spec: PointsSpec, progress: Progress | None = None) -> Sets:
    """Divide the samples of each class into sets of similar features (step 2): N/ratio sets of N samples."""
    indices, sizes = [], []
    labels = np.unique(y)
    for number, label in enumerate(labels.tolist(), 1):
        members = np.flatnonzero(y == label)
        num_sets = max(1, round(len(members) / spec.ratio))
        if num_sets > 1:
            chance = np.random.default_rng((spec.seed, label))
            found = DIVISIONS[spec.division](features[members], num_sets, chance)
            indices.append(members[np.argsort(found, kind="stable")])
            counts = np.bincount(found)
            sizes.append(counts[counts > 0])
        else:
            indices.append(members)
            sizes.append(np.array([len(members)]))
        if progress is not None:
            progress(number, len(labels))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return Sets(offsets.astype(np.int64), np.concatenate(indices).astype(np.int64))


def average(x: Array, y: Array, sets: Sets) -> AggregatedPoints:
    """Average the original samples of each set (step 3)."""
    means = np.empty((len(sets), *x.shape[1:]), np.float32)
    step = max(1, _CHUNK_VALUES * len(sets) // x.size)
    for start in range(0, len(sets), step):
        bounds = sets.offsets[start : start + step + 1]
        members = x[sets.indices[bounds[0] : bounds[-1]]].astype(np.float32)
        np.add.reduceat(members, bounds[:-1] - bounds[0], axis=0, out=means[start : start + len(bounds) - 1])
    means /= sets.sizes.reshape(-1, *[1] * (x.ndim - 1)).astype(np.float32)
    return AggregatedPoints(means, y[sets.indices[sets.offsets[:-1]]], sets)
