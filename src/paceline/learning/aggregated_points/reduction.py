"""Step 1, reduction: from samples of many values to a few features that are similar for similar samples.

Shapes: N samples of d values become N × d'. Sizes and constants are those of Han et al. (2021) §4.3 where it gives
them; docstrings state our choices elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from paceline.extras import extra
from paceline.learning.shards import Array

Reduction: TypeAlias = Callable[[Array, int, np.random.Generator], Array]
"""Function of stored samples, the ratio and a random generator, that returns float32 features (N, d')."""

_NUM_FEATURES = 10  # d' of SVD and of the fingerprint, ibid.; our choice for the others
_CHUNK_VALUES = 1 << 22  # converted at a time, without a float copy of all samples

# Settings of the incremental SVD, ibid.
_SHARE_OF_VALUES = 0.01
_LEARNING_RATE = 0.001
_REGULARISATION = 0.015
_NUM_PASSES = 20
_START = 0.1  # of every factor; our choice, as in Funk's public implementation, which has that rate, too


def singular_values(x: Array, ratio: int, chance: np.random.Generator) -> Array:
    """Return the ten largest singular values of each sample, taken as a matrix.

    This is how we read "SVD based on single data points", as opposed to that of the entire dataset: the complexity
    that the paper states, O(N · d^1.5), is that of N matrices of √d × √d. Channels of an image are stacked; a vector
    of features fills a square, padded with zeros.
    """
    num_rows = math.isqrt(x[0].size - 1) + 1 if x.ndim == 2 else math.prod(x.shape[1:-1])
    num_columns = num_rows if x.ndim == 2 else x.shape[-1]
    size = min(_NUM_FEATURES, num_rows, num_columns)

    def reduce(values: Array) -> Array:
        padded = np.pad(values, ((0, 0), (0, num_rows * num_columns - values.shape[1])))
        matrices = padded.reshape(len(values), num_rows, num_columns)
        if num_columns > num_rows:
            matrices = matrices.transpose(0, 2, 1)
        squares = np.matmul(matrices.transpose(0, 2, 1), matrices)
        return np.sqrt(np.maximum(np.linalg.eigvalsh(squares)[:, : -size - 1 : -1], 0))

    return _by_chunks(x, reduce)


def incremental_svd(x: Array, ratio: int, chance: np.random.Generator) -> Array:
    """Learn factors of the samples from a part of their values (Gorrell, 2006).

    Samples ≈ P·Qᵀ, one feature (a column of P and Q) after the other. In each pass, a hundredth of the attributes is
    drawn; at each of its values x_ij, with e = x_ij − p_i·q_j and the feature in question, p_i grows by
    rate·(e·q_j − λ·p_i), and q_j alike. The steps of one q_j over all samples are taken as one, by the exact solution
    of the flow that they follow: it cannot overshoot, however many samples there are.
    """
    values, scale = x.reshape(len(x), -1), np.float32(_scale(x))
    num_values = values.shape[1]
    num_features = max(1, round(math.log2(max(2, 0.1 * num_values / ratio))))
    num_drawn = max(1, round(_SHARE_OF_VALUES * num_values))
    p = np.full((len(x), num_features), _START, np.float32)
    q = np.full((num_values, num_features), _START, np.float32)
    for feature in range(num_features):
        own = p[:, feature].copy()
        for _ in range(_NUM_PASSES):
            for column in chance.choice(num_values, num_drawn, replace=False):
                left = values[:, column] * scale - p[:, :feature] @ q[column, :feature]
                before = q[column, feature]
                pull = float(own @ own) + _REGULARISATION * len(x)
                goal = float(own @ left) / pull
                q[column, feature] = goal + (before - goal) * math.exp(-_LEARNING_RATE * pull)
                own += _LEARNING_RATE * ((left - own * before) * before - _REGULARISATION * own)
        p[:, feature] = own
    return p


def fingerprints(x: Array, ratio: int, chance: np.random.Generator) -> Array:
    """Sum a sample's values with ten sets of random signs: the fingerprint of SimHash before it is cut to bits.

    The paper says "hash" and "fingerprint" of length 10. Ten bits distinguish at most 1024 samples, and within a class
    far fewer: too few for k-means to make N/ratio sets of.
    """
    signs = chance.choice(np.array([-1, 1], np.float32), (x[0].size, _NUM_FEATURES))
    return _by_chunks(x, lambda values: values @ signs)


def principal_components(x: Array, ratio: int, chance: np.random.Generator) -> Array:
    """Project on the ten principal components of all samples."""
    values = x.reshape(len(x), -1).astype(np.float32)
    return _project(values - values.mean(0), chance)


def whole_svd(x: Array, ratio: int, chance: np.random.Generator) -> Array:
    """Project on the ten largest singular vectors of the entire dataset: principal components of uncentred data."""
    return _project(x.reshape(len(x), -1).astype(np.float32), chance)


def histograms(x: Array, ratio: int, chance: np.random.Generator) -> Array:
    """Count a sample's values in each tenth of the range of all samples."""
    low, high = _scale(x) * float(x.min()), _scale(x) * float(x.max())
    per_value = _NUM_FEATURES / (high - low) if high > low else 0.0

    def reduce(values: Array) -> Array:
        bins = np.clip((values - low) * per_value, 0, _NUM_FEATURES - 1).astype(np.int64)
        bins += _NUM_FEATURES * np.arange(len(values))[:, None]
        return np.bincount(bins.ravel(), minlength=_NUM_FEATURES * len(values)).reshape(len(values), -1)

    return _by_chunks(x, reduce)


REDUCTIONS: dict[str, Reduction] = {
    "svd": singular_values,
    "incremental-svd": incremental_svd,
    "hash": fingerprints,
    "pca": principal_components,
    "whole-svd": whole_svd,
    "histogram": histograms,
}
"""Reductions, by name; the first three are the paper's choice, the others are for comparison."""


def _scale(x: Array) -> float:
    """Return the factor that brings stored values to at most 1."""
    return 1 / 255 if x.dtype == np.uint8 else 1 / max(float(np.abs(x).max()), np.finfo(np.float32).tiny)


def _by_chunks(x: Array, reduce: Callable[[Array], Array]) -> Array:
    """Reduce samples chunk by chunk, as float32 of at most 1 and shape (samples, values)."""
    scale, step = np.float32(_scale(x)), max(1, _CHUNK_VALUES // x[0].size)
    parts = [x[start : start + step] for start in range(0, len(x), step)]
    reduced = [reduce(part.reshape(len(part), -1) * scale) for part in parts]
    return np.concatenate(reduced).astype(np.float32, copy=False)


def _project(values: Array, chance: np.random.Generator) -> Array:
    with extra("points"):
        from sklearn.utils.extmath import randomized_svd  # takes long to load

    size, seed = min(_NUM_FEATURES, *values.shape), int(chance.integers(1 << 31))
    left, strengths, _ = randomized_svd(values, size, random_state=seed)
    return np.asarray(left * strengths, np.float32)
