"""Ranking: whole sets by falling loss, as many samples as asked for, and classes in turn if wanted."""

import itertools

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning.aggregated_points import AggregatedPoints, Sets
from paceline.learning.ranking import rank, ranked_order


def make_points(*sets, labels=None):
    """Points for these sets of samples; only their sets and labels matter."""
    offsets = np.cumsum([0, *map(len, sets)])
    y = np.zeros(len(sets), np.uint8) if labels is None else np.array(labels, np.uint8)
    return AggregatedPoints(
        np.zeros((len(sets), 1), np.float32), y, Sets(offsets, np.array(list(itertools.chain(*sets))))
    )


POINTS = make_points([4, 0], [3], [1, 2, 6], [5])


@pytest.mark.parametrize(
    ("num_kept", "expected"),
    [
        (-1, []),
        (0, []),
        (1, [1, 2, 6]),
        (3, [1, 2, 6]),
        (4, [1, 2, 6, 5]),
        (5, [1, 2, 6, 5, 4, 0]),
        (6, [1, 2, 6, 5, 4, 0]),
        (7, [1, 2, 6, 5, 4, 0, 3]),
        (100, [1, 2, 6, 5, 4, 0, 3]),
    ],
)
def test_whole_sets_are_kept_from_the_highest_loss_down(num_kept, expected):
    losses = np.array([0.5, 0.1, 3.0, 0.7], np.float32)
    assert ranked_order(losses, POINTS, num_kept).tolist() == expected


def test_a_loss_that_is_no_number_is_high():
    assert rank(np.array([1.0, np.nan, np.inf, 2.0]), POINTS).tolist() == [1, 2, 3, 0]


def test_shuffling_keeps_the_same_samples():
    points = make_points(*np.arange(100).reshape(20, 5).tolist())
    losses = np.random.default_rng(0).random(20)
    in_order = ranked_order(losses, points, 33)
    shuffled = ranked_order(losses, points, 33, np.random.default_rng(1))
    assert sorted(shuffled) == sorted(in_order)
    assert shuffled.tolist() != in_order.tolist()
    assert shuffled.tolist() == ranked_order(losses, points, 33, np.random.default_rng(1)).tolist()


def test_by_class_every_class_gets_its_turn():
    """Class 0 has twice the samples of class 1, and the lower losses."""
    points = make_points([0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], labels=[0, 0, 0, 0, 1, 1])
    losses = np.array([0.1, 0.4, 0.2, 0.3, 5.0, 9.0])
    assert rank(losses, points).tolist() == [5, 4, 1, 3, 2, 0]
    assert rank(losses, points, is_by_class=True).tolist() == [1, 5, 3, 2, 4, 0]
    kept = ranked_order(losses, points, 6, is_by_class=True)
    assert sorted(kept.tolist()) == [2, 3, 6, 7, 10, 11]


def test_losses_of_other_points_are_refused():
    with pytest.raises(ConfigError, match=r"4 points need as many losses, not some of shape \(3,\)"):
        ranked_order(np.zeros(3), POINTS, 2)
