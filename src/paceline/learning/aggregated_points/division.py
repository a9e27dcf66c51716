"""Step 2, division: the samples of one class into sets of similar features."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from paceline.extras import extra
from paceline.learning.shards import Array

Division: TypeAlias = Callable[[Array, int, np.random.Generator], Array]
"""Function of features (N, d'), the number of sets (2 to N) and a random generator, that returns each sample's set.

Sets are numbered from 0. Some may be empty, since fewer samples than that may differ.
"""

_NUM_ITERATIONS = 20  # Han et al. (2021) §4.3 for k-means; ours for the mixture
_MAX_TOGETHER = 8192  # samples of a class that k-means divides in one go: its time grows with their square
_alone = threading.Lock()  # warning filters and thread limits apply to the whole process


def k_means(features: Array, num_sets: int, chance: np.random.Generator) -> Array:
    """Divide by k-means; a class of very many samples first into a few parts, and then each of these."""
    if len(features) <= _MAX_TOGETHER:
        return _k_means(features, num_sets, chance)
    parts = _k_means(features, 2 * len(features) // _MAX_TOGETHER, chance)
    sets, num_before = np.empty_like(parts), 0
    for part in np.unique(parts):
        members = np.flatnonzero(parts == part)
        num_own = max(1, round(num_sets * len(members) / len(features)))
        sets[members] = num_before + _k_means(features[members], num_own, chance)
        num_before += num_own
    return sets


def _k_means(features: Array, num_sets: int, chance: np.random.Generator) -> Array:
    """Run k-means from centres drawn among the samples."""
    with extra("points"):
        from sklearn.cluster import KMeans  # takes long to load

    model = KMeans(num_sets, init="random", n_init=1, max_iter=_NUM_ITERATIONS, random_state=_seed(chance))
    with _left_alone():
        return np.asarray(model.fit_predict(features))


def lsh(features: Array, num_sets: int, chance: np.random.Generator) -> Array:
    """Divide by locality-sensitive hashing: a set lies on the same side of each of some random hyperplanes.

    Each bucket shifts its next hyperplane so that both parts get samples in proportion to their number of sets. So
    there are exactly `num_sets` buckets of about equal size, as the paper's settings require; hashes to a fixed grid
    would not give that. The time is O(d' · N · log N), as in the paper's table.
    """
    buckets, wanted = np.zeros(len(features), np.int64), np.array([num_sets])  # sets that a bucket is to become
    while wanted.max() > 1:
        direction = chance.normal(size=features.shape[1]).astype(features.dtype)
        order = np.lexsort((features @ direction, buckets))
        sizes = np.bincount(buckets, minlength=len(wanted))
        places = np.arange(len(features)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        firsts = (wanted + 1) // 2
        is_second = places >= np.repeat(sizes * firsts // wanted, sizes)  # never where one set is wanted
        halves = np.where(wanted > 1, 2, 1)
        buckets[order] = np.repeat(np.cumsum(halves) - halves, sizes) + is_second
        wanted = np.stack([firsts, wanted - firsts], axis=1).ravel()
        wanted = wanted[wanted > 0]
    return buckets


def gaussian_mixture(features: Array, num_sets: int, chance: np.random.Generator) -> Array:
    """Divide by a mixture of Gaussians with diagonal covariances, each sample to its likeliest component."""
    with extra("points"):
        from sklearn.mixture import GaussianMixture  # takes long to load

    spread = float(features.var(0).mean())
    model = GaussianMixture(
        num_sets,
        covariance_type="diag",
        init_params="random_from_data",
        max_iter=_NUM_ITERATIONS,
        reg_covar=1e-6 * max(spread, 1e-6),
        random_state=_seed(chance),
    )
    with _left_alone():
        return np.asarray(model.fit_predict(features.astype(np.float64)))


DIVISIONS: dict[str, Division] = {"k-means": k_means, "lsh": lsh, "gmm": gaussian_mixture}
"""Divisions, by name."""


def _seed(chance: np.random.Generator) -> int:
    return int(chance.integers(1 << 31))


@contextlib.contextmanager
def _left_alone() -> Iterator[None]:
    """Run scikit-learn in one thread, for the same sums on any number of cores, without convergence warnings."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with _alone, threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
