"""Aggregation: every sample in one set of its class, means by hand, and alike samples together."""

import itertools

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning.aggregated_points import DIVISIONS, REDUCTIONS, PointsSpec, aggregate, aggregation
from paceline.learning.datasets import Dataset
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.tables import ArrayTable
from paceline.learning.training_spec import TrainingSpec
from tests.learning.aggregated_points.samples import HEAP_SAMPLES, heaps

PAIRS = list(itertools.product(REDUCTIONS, DIVISIONS))


def purity(points, kinds):
    """The share of samples that are of the kind that most of their set are of."""
    return sum(np.bincount(kinds[members]).max() for members in points.sets) / len(kinds)


@pytest.mark.parametrize(("reduction", "division"), PAIRS)
def test_each_sample_is_in_one_set_of_its_class_and_points_are_means(reduction, division):
    x, y, _ = heaps()
    points = aggregate(x, y, PointsSpec(reduction=reduction, division=division, ratio=5))
    assert points.sets.is_whole(len(y))
    assert points.num_samples == len(y)
    assert len(points) == len(points.sets) == len(points.shard.y)
    assert 0.7 * len(y) / 5 <= len(points) <= len(y) / 5
    assert (points.x.dtype, points.x.shape[1:]) == (np.float32, x.shape[1:])
    for number, members in enumerate(points.sets):
        assert set(y[members]) == {points.y[number]}
        np.testing.assert_allclose(points.x[number], x[members].mean(0), rtol=1e-5)


def test_points_are_rated_and_trained_as_the_samples_that_they_are_means_of():
    x, y, _ = heaps()
    table = ArrayTable({"x": x, "y": y})
    spec = TrainingSpec.fitted(
        Dataset("heaps", table, table), model=ModelSpec(name="two-nn"), optimizer=OptimizerSpec(), batch_size=8
    )
    model, points = LocalModel(spec), aggregate(x, y, PointsSpec(ratio=5))
    few = [members[:1] for members in points.sets]  # one sample for each point, which is like it
    like = Shard(x[np.concatenate(few)], points.y)
    (of_points,), (of_samples,) = (list(model.losses(model.state(), shard)) for shard in (points.shard, like))
    assert np.abs(of_points - of_samples).max() < 0.1
    assert sum(model.minibatches(model.state(), [points.shard], seed=0)) == len(points)


@pytest.mark.parametrize(("reduction", "division"), PAIRS)
def test_the_same_seed_gives_the_same_points(reduction, division):
    x, y, _ = heaps()
    first, again, other = (
        aggregate(x, y, PointsSpec(reduction=reduction, division=division, seed=seed, ratio=4)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.sets.indices, again.sets.indices)
    assert not np.array_equal(first.sets.indices, other.sets.indices)


@pytest.mark.parametrize("reduction", [name for name in REDUCTIONS if name != "histogram"])
@pytest.mark.parametrize("division", DIVISIONS)
def test_alike_samples_come_together(reduction, division):
    """With as many sets as heaps, by far more often than if sets were drawn at random."""
    x, y, heap = heaps(num_classes=4, shape=(1, 20, 20))
    points = aggregate(x, y, PointsSpec(reduction=reduction, division=division, ratio=HEAP_SAMPLES))
    shuffled = np.random.default_rng(0).permutation(heap)
    assert purity(points, heap) > 0.6
    assert purity(points, heap) > 1.3 * purity(points, shuffled)


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_samples_that_do_not_differ_are_no_trouble(reduction, division):
    x, y = np.full((40, 1, 5, 5), 7, np.uint8), np.arange(40) % 2
    points = aggregate(x, y, PointsSpec(reduction=reduction, division=division, ratio=4))
    assert points.sets.is_whole(40)
    assert (points.x == 7).all()


def test_progress_tells_of_each_class_and_may_end_the_work():
    x, y, _ = heaps(num_classes=4)
    told = []
    aggregate(x, y, PointsSpec(), lambda *progress: told.append(progress))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    with pytest.raises(StopIteration):
        aggregate(x, y, PointsSpec(), lambda *_: next(iter(())))


def test_many_sets_are_averaged_in_parts(monkeypatch):
    monkeypatch.setattr(aggregation, "_CHUNK_VALUES", 100)
    x, y = np.arange(3000, dtype=np.float32)[:, None], np.zeros(3000, np.int64)
    points = aggregate(x, y, PointsSpec(reduction="hash", division="lsh", ratio=2))
    np.testing.assert_allclose(points.x[:, 0], [x[members].mean() for members in points.sets])


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros((0, 4), np.uint8), np.zeros(0, int)),
        (np.zeros((3, 4), np.uint8), np.zeros(2, int)),
        (np.zeros(3, np.uint8), np.zeros(3, int)),
        (np.zeros((3, 4), np.uint8), np.zeros((3, 1), int)),
        (np.zeros((3, 4), np.uint8), np.zeros(3)),
    ],
)
def test_what_is_no_data_is_refused_in_one_line(x, y):
    with pytest.raises(ConfigError, match=r"^no points can be made of samples of shape .* and labels of shape .*$"):
        aggregate(x, y, PointsSpec())
