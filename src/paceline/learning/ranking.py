"""Which samples to train on, most useful first: Algorithm 2 of EdgeGossip (Han et al., 2021), as plain functions.

A point with a high loss stands for samples that the model has still much to learn from. Sets of samples are ranked by
the losses of their points, and whole sets are kept, from the highest loss down, until there are as many samples as the
peer has time for.

The paper trains a minibatch on whole sets, of `batch_size` samples or a few more. Here the kept samples are one row in
that order, which ``Trainer.train(..., is_shuffled=False)`` cuts into minibatches of exactly `batch_size`.
"""

from __future__ import annotations

import numpy as np

from paceline.errors import ConfigError
from paceline.learning.points import AggregatedPoints
from paceline.learning.shards import Array


def ranked_order(
    losses: Array,
    points: AggregatedPoints,
    num_kept: int,
    shuffle: np.random.Generator | None = None,
    *,
    is_by_class: bool = False,
) -> Array:
    """The samples to train on, by number, in that order.

    Args:
        losses: of each point; see `rank`.
        num_kept: how many samples, or a few more, since sets are kept whole; all, if there are not as many.
        shuffle: keeps the same samples, but in random order. In the order of rank, a minibatch has few classes and
            losses much alike, and the last ones a peer trains on are the least useful.
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
    """The numbers of the sets, highest loss first; equal ones in their order. What is no number counts as infinite.

    Args:
        losses: of each point. Any other number will do: random ones rank at random, which is what ranking by loss has
            to beat.
        is_by_class: whether each class gets its turn: sets are ordered by their rank within their class, in parts of
            the class. Whatever is kept then has the classes in about their proportions. Ranking over all classes, as
            the paper does, may leave out for long what the model knows well.
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
