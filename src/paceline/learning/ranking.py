"""Ranking of samples, most useful first: Algorithm 2 of EdgeGossip (Han et al., 2021), as plain functions.

A point with a high loss represents samples that the model can still learn much from. Sets of samples are ranked by the
losses of their points, and whole sets are kept, from the highest loss down, until there are as many samples as the
peer has time for. The paper trains a minibatch on whole sets, of `batch_size` samples or a few more. Here the kept
samples are cut in that order into minibatches of exactly `batch_size`.
"""

from __future__ import annotations

import numpy as np

from paceline.errors import ConfigError
from paceline.learning.aggregated_points import AggregatedPoints
from paceline.learning.shards import Array


def ranked_order(
    losses: Array,
    points: AggregatedPoints,
    num_kept: int,
    shuffle: np.random.Generator | None = None,
    *,
    is_by_class: bool = False,
) -> Array:
    """Return the indices of the samples to train on, in order.

    Args:
        losses: loss of each point; see `rank`.
        num_kept: number of samples to keep, at least, since sets are kept whole.
        shuffle: generator to put the kept samples in random order. In the order of rank, a minibatch has few classes
            and similar losses, and the last ones a peer trains on are the least useful.
        is_by_class: see `rank`.
    """
    ranked = rank(losses, points, is_by_class=is_by_class)
    if num_kept <= 0:
        return np.empty(0, np.int64)
    ends = np.cumsum(points.sets.sizes[ranked])
    num_sets = min(int(np.searchsorted(ends, num_kept)) + 1, len(ranked))
    order = np.concatenate([points.sets[number] for number in ranked[:num_sets].tolist()])
    return order if shuffle is None else shuffle.permutation(order)


def rank(losses: Array, points: AggregatedPoints, *, is_by_class: bool = False) -> Array:
    """Return the numbers of the sets, highest loss first; ties stay in order, and NaN counts as infinite.

    Args:
        losses: loss of each point, or any other score.
        is_by_class: whether to order sets by their relative rank within their class, so that what is kept has the
            classes in about their proportions. Ranking over all classes, as the paper does, may leave out for long
            what the model knows well.
    """
    if losses.shape != points.y.shape:
        raise ConfigError(f"{len(points)} points need as many losses, not some of shape {losses.shape}")
    falling = np.argsort(-np.where(np.isnan(losses), np.inf, losses), kind="stable")
    if not is_by_class:
        return falling
    sizes, classes = points.sets.sizes[falling], points.y[falling]
    shares = np.empty(len(points))
    for label in np.unique(classes):
        own = sizes[classes == label]
        shares[classes == label] = (np.cumsum(own) - own / 2) / own.sum()
    return falling[np.argsort(shares, kind="stable")]
