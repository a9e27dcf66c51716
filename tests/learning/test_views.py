"""Views: each kind by what it must do to an image, the same for the same seed, and none of what is no image."""

import math

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from paceline.errors import ConfigError
from paceline.learning.views import VIEWS, ViewSpec, apply_view

SHAPES = [(40, 1, 28, 28), (7, 3, 32, 20), (3, 1, 1, 1), (0, 1, 28, 28)]


def images(shape, dtype=np.uint8):
    chance = np.random.default_rng(7)
    return chance.integers(0, 256, shape, np.uint8) if dtype == np.uint8 else chance.normal(size=shape).astype(dtype)


def ramp(height, width):
    """One image that rises by 3 a row and by 5 a column."""
    return (3.0 * np.arange(height)[:, None] + 5.0 * np.arange(width)).astype(np.float32)[None, None]


def seen(x, kind, seed=0, **fields):
    return apply_view(x, ViewSpec(kind=kind, **fields), seed)


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_type_shape_and_original_are_kept(kind, dtype, shape):
    x = images(shape, dtype)
    before = x.copy()
    result = seen(x, kind)
    assert (result.dtype, result.shape) == (dtype, shape)
    assert result.flags.c_contiguous
    assert np.array_equal(x, before)
    if result.size:
        assert result.min() >= min(x.min(), 0)
        assert result.max() <= x.max()


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_does_not_depend_on_the_images_around_it(kind):
    x = images((3000, 1, 28, 28))  # more than are made at a time
    whole, few = seen(x, kind), seen(x[:5], kind)
    assert np.array_equal(whole[:5], few)
    x[:-1] = 0
    assert np.array_equal(seen(x, kind)[-1], whole[-1])


def test_flips_mirror_each_image():
    x = images((5, 3, 8, 9))
    assert np.array_equal(seen(x, "flip-horizontal"), x[:, :, :, ::-1])
    assert np.array_equal(seen(x, "flip-vertical"), x[:, :, ::-1])


@pytest.mark.parametrize("sigma", [0.1, 0.8, 1.5, 20.0])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_blur_is_a_gaussian_filter(dtype, sigma):
    x = images((5, 3, 8, 9)).astype(dtype)
    expected = gaussian_filter(x, (0, 0, sigma, sigma), output=np.float32, mode="nearest")
    if dtype == np.uint8:
        expected = np.rint(expected)
    np.testing.assert_allclose(seen(x, "blur", sigma_pixels=sigma), expected, rtol=1e-6)


@pytest.mark.parametrize(("share", "tolerance"), [(0.05, 0.02), (0.2, 0.03), (0.9, 0.03)])
def test_one_rectangle_of_that_share_is_erased(share, tolerance):
    x = images((400, 1, 28, 28)) | 1  # no pixel is black
    erased = seen(x, "erase", erased_share=share)[:, 0] == 0
    rows, columns = erased.any(2), erased.any(1)
    assert np.array_equal(erased, rows[:, :, None] & columns[:, None])
    for spans in (rows, columns):
        assert (np.diff(spans.astype(int), axis=1) == 1).sum(1).max() <= 1  # in one piece
        assert spans.any(0).all()  # anywhere in the image
    assert np.abs(erased.mean((1, 2)) - share).max() < tolerance
    kept = seen(x, "erase", erased_share=share)[:, 0]
    assert np.array_equal(kept[~erased], x[:, 0][~erased])


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_crop_is_a_part_of_the_image_stretched_over_it(share):
    cropped = seen(np.repeat(ramp(24, 30), 200, axis=0), "crop", cropped_share=share)[:, 0]
    side = math.sqrt(share)
    # Linear interpolation of a ramp is a ramp; only beyond the edges of the image it is level.
    inner = cropped[:, 2:-2, 2:-2]
    np.testing.assert_allclose(np.diff(inner, axis=1), 3 * side, atol=1e-3)
    np.testing.assert_allclose(np.diff(inner, axis=2), 5 * side, atol=1e-3)
    corners = inner[:, 0, 0]
    assert corners.max() - corners.min() > 0.8 * (1 - side) * (3 * 24 + 5 * 30)  # anywhere in the image


@pytest.mark.parametrize("x", [np.zeros((4, 13), np.float32), np.zeros((4, 28, 28), np.uint8), np.zeros((4, 1, 8, 8))])
def test_what_is_no_image_is_refused(x):
    with pytest.raises(ConfigError, match="^view .blur. does not fit samples that are .* set kind = .plain. in"):
        seen(x, "blur")
    assert seen(x, "plain") is x
