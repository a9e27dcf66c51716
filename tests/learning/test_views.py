"""Views: each kind by what it must do to an image, the same for the same seed, and none of what is no image."""

import math
import time

import msgspec
import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning.views import PAPER_VIEWS, VIEWS, ViewSpec, viewed

SHAPES = [(40, 1, 28, 28), (7, 3, 32, 20), (3, 1, 1, 1), (0, 1, 28, 28)]


def images(shape, dtype=np.uint8):
    chance = np.random.default_rng(7)
    return chance.integers(0, 256, shape, np.uint8) if dtype == np.uint8 else chance.normal(size=shape).astype(dtype)


def ramp(height, width):
    """One image that rises by 3 a row and by 5 a column."""
    return (3.0 * np.arange(height)[:, None] + 5.0 * np.arange(width)).astype(np.float32)[None, None]


def seen(x, kind, seed=0, **fields):
    return viewed(x, ViewSpec(kind=kind, **fields), seed)


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
def test_the_same_seed_gives_the_same_view(kind):
    x = images((50, 1, 28, 28))
    first, again, other = (seen(x, kind, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) == (kind not in ("erase", "crop"))


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_does_not_depend_on_the_images_around_it(kind):
    x = images((3000, 1, 28, 28))  # more than are made at a time
    whole, few = seen(x, kind), seen(x[:5], kind)
    assert np.array_equal(whole[:5], few)
    x[:-1] = 0
    assert np.array_equal(seen(x, kind)[-1], whole[-1])


def test_plain_is_the_image_itself():
    x = images((5, 3, 8, 9))
    assert np.array_equal(seen(x, "plain"), x)


def test_flips_mirror_each_image():
    x = images((5, 3, 8, 9))
    assert np.array_equal(seen(x, "flip-horizontal"), x[:, :, :, ::-1])
    assert np.array_equal(seen(x, "flip-vertical"), x[:, :, ::-1])


@pytest.mark.parametrize("sigma", [0.8, 1.5])
def test_blur_spreads_a_point_as_a_gaussian(sigma):
    x = np.zeros((2, 1, 21, 21), np.float32)
    x[0, 0, 10, 10] = 1
    spread = seen(x, "blur", sigma_pixels=sigma)
    distances = np.arange(21) - 10
    line = np.exp(-(distances**2) / (2 * sigma**2))
    np.testing.assert_allclose(spread[0, 0], np.outer(line, line) / line.sum() ** 2, atol=1e-4)
    assert not spread[1].any()


def test_blur_leaves_an_even_image_as_it_is():
    x = np.full((1, 1, 9, 9), 200, np.uint8)
    assert np.array_equal(seen(x, "blur"), x)


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


def test_all_channels_are_erased_alike():
    erased = seen(np.ones((30, 3, 16, 16), np.float32), "erase") == 0
    assert np.array_equal(erased.all(1), erased.any(1))


def test_what_is_erased_is_up_to_twice_as_high_as_wide():
    erased = seen(np.ones((500, 1, 60, 60), np.float32), "erase")[:, 0] == 0
    ratios = erased.any(2).sum(1) / erased.any(1).sum(1)
    assert 0.47 < ratios.min() < 0.6
    assert 1.7 < ratios.max() < 2.1


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


def test_a_crop_of_all_is_the_image():
    x = images((4, 3, 11, 8))
    assert np.array_equal(seen(x, "crop", cropped_share=1), x)


def test_a_crop_lies_within_the_image():
    x = images((300, 1, 10, 10), np.float32)
    cropped = seen(x, "crop", cropped_share=0.01)  # one pixel of it
    assert (cropped.max((1, 2, 3)) <= x.max((1, 2, 3))).all()
    assert (cropped.min((1, 2, 3)) >= x.min((1, 2, 3))).all()


def test_the_views_of_the_paper_are_in_its_order():
    kinds = [spec.kind for spec in PAPER_VIEWS]
    assert kinds == ["blur", "erase", "flip-horizontal", "flip-vertical", "crop"]
    assert [*VIEWS] == ["plain", *kinds]
    x = images((1, 1, 28, 28))
    assert len({viewed(x, spec, 0).tobytes() for spec in PAPER_VIEWS}) == 5


def test_a_view_of_twenty_thousand_images_takes_seconds():
    x = images((20_000, 1, 28, 28))
    for spec in PAPER_VIEWS:
        before = time.process_time()
        viewed(x, spec, 0)
        assert time.process_time() - before < 10  # about half a second at most, on an idle core


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "blurr"}, "view 'blurr' is unknown; did you mean 'blur'? Allowed: plain, blur, erase, flip-hori"),
        ({"share": 0.5}, "unknown field `share`"),
    ],
)
def test_bad_specs_are_refused(fields, message):
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(fields, ViewSpec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_spec_travels():
    spec = ViewSpec(kind="crop", cropped_share=0.25)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=ViewSpec) == spec
    with pytest.raises(ValueError, match="unknown"):
        ViewSpec(kind="rotate")


@pytest.mark.parametrize("x", [np.zeros((4, 13), np.float32), np.zeros((4, 28, 28), np.uint8), np.zeros((4, 1, 8, 8))])
def test_what_is_no_image_is_refused(x):
    with pytest.raises(ConfigError, match=r"view 'blur' does not fit samples that are .* it takes images"):
        seen(x, "blur")
