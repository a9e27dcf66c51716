"""Reductions: the paper's sizes, and what each feature is, by hand."""

import numpy as np
import pytest

from paceline.learning.aggregated_points import PointsSpec, reduce


def images(num=40, shape=(1, 28, 28), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (num, *shape), dtype=np.uint8)


@pytest.mark.parametrize(
    ("shape", "ratio", "num_features"),
    [((1, 28, 28), 5, 4), ((1, 28, 28), 10, 3), ((1, 28, 28), 20, 2), ((3, 32, 32), 10, 5), ((13,), 10, 1)],
)
def test_features_of_the_incremental_svd_are_as_many_as_the_paper_says(shape, ratio, num_features):
    """log2(0.1 · d / ratio), as a whole number of at least one."""
    features = reduce(images(shape=shape), PointsSpec(reduction="incremental-svd", ratio=ratio))
    assert (features.dtype, features.shape) == (np.float32, (40, num_features))


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 16, 16), (1, 12, 30), (1, 30, 12)])
def test_svd_has_the_singular_values_of_each_image(shape):
    x = images(shape=shape)
    matrices = x.reshape(len(x), -1, shape[-1]) / 255
    expected = np.linalg.svd(matrices, compute_uv=False)[:, :10]
    np.testing.assert_allclose(reduce(x, PointsSpec(reduction="svd")), expected, rtol=1e-3)


def test_a_histogram_counts_the_values_of_each_tenth_of_the_range():
    x = np.zeros((2, 1, 2, 2), np.uint8)
    x[1] = [[0, 255], [26, 128]]
    features = reduce(x, PointsSpec(reduction="histogram"))
    assert features.tolist() == [[4, 0, 0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1, 0, 0, 0, 1]]


def test_fingerprints_keep_sums_and_distances():
    """A sum of signed values is linear; distances are kept on average (Johnson and Lindenstrauss)."""
    x = images(num=400).astype(np.float32) / 255
    features = reduce(x, PointsSpec(reduction="hash"))
    differences = x[:200].reshape(200, -1) - x[200:].reshape(200, -1)
    distances = np.square(features[:200] - features[200:]).sum(1) / 10
    assert distances.mean() == pytest.approx(np.square(differences).sum(1).mean() / x.max() ** 2, rel=0.1)


@pytest.mark.parametrize(("name", "is_centred"), [("pca", True), ("whole-svd", False)])
def test_projections_are_those_of_a_full_svd(name, is_centred):
    """Directions have a sign that is anybody's choice."""
    random = np.random.default_rng(0)
    x = (random.normal(size=(60, 12)) @ np.diag(2.0 ** -np.arange(12)) @ random.normal(size=(12, 30)) + 3).astype("f4")
    values = x - x.mean(0) if is_centred else x
    left, strengths, _ = np.linalg.svd(values.astype(np.float64), full_matrices=False)
    expected = (left * strengths)[:, :8]
    np.testing.assert_allclose(
        np.abs(reduce(x, PointsSpec(reduction=name)))[:, :8], np.abs(expected), rtol=1e-2, atol=1e-2
    )


def test_the_incremental_svd_does_not_overshoot_with_many_samples():
    x = np.full((200_000, 4), 255, np.uint8)
    features = reduce(x, PointsSpec(reduction="incremental-svd", ratio=1))
    assert np.isfinite(features).all()
    assert np.abs(features).max() < 10
