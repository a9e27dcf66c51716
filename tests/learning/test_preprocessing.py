"""Preprocessing: as scikit-learn standardises, whatever the layout of samples, and saved with the model."""

import msgspec
import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.preprocessing import Normalisation, Rescale, Standardise, WholeModel, fitted_buffers
from paceline.learning.tables import ArrayTable


def fit(x, **options):
    return Normalisation.of(ArrayTable({"x": x}), **options)


def standardised(x):
    """What the first layer of a model for this data makes of it."""
    return Standardise(fit(x), x.shape[1:])(torch.from_numpy(x)).numpy()


RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.normal([3, -200, 0.01, 0], [2, 50, 0.001, 1], (300, 4))
IMAGES = RANDOM.integers(0, 256, (40, 3, 8, 7), dtype=np.uint8)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_features_are_standardised_one_by_one(dtype):
    x = FEATURES.astype(dtype)
    expected = StandardScaler().fit_transform(x.astype(np.float64))
    np.testing.assert_allclose(standardised(x), expected, atol=1e-4)


def test_images_are_standardised_by_channel():
    by_channel = IMAGES.transpose(0, 2, 3, 1).reshape(-1, 3)
    expected = StandardScaler().fit_transform(by_channel.astype(np.float64)).reshape(40, 8, 7, 3).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(standardised(IMAGES), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(300,), (75, 4), (15, 5, 4), (3, 5, 5, 4), (3, 5, 5, 2, 2)])
def test_all_else_is_standardised_by_what_comes_last_or_first(shape):
    x = RANDOM.normal(2, 3, shape)
    axis = () if len(shape) == 1 else (1,) if len(shape) > 3 else (len(shape) - 1,)
    others = tuple(number for number in range(len(shape)) if number not in axis)
    expected = (x - x.mean(others, keepdims=True)) / x.std(others, keepdims=True)
    np.testing.assert_allclose(standardised(x), expected, atol=1e-5)


def test_bytes_count_as_numbers_from_0_to_1():
    how = fit(IMAGES)
    assert how.scale == 1 / 255
    assert how.mean == pytest.approx(IMAGES.mean((0, 2, 3)) / 255)
    assert how.std == pytest.approx(IMAGES.std((0, 2, 3)) / 255)


def test_statistics_of_many_chunks_are_those_of_the_whole():
    x = RANDOM.integers(0, 256, (700, 2, 40, 40), dtype=np.uint8)
    x[350:] //= 16  # later chunks are unlike the first
    how = fit(x)
    assert how.mean == pytest.approx(x.mean((0, 2, 3)) / 255, rel=1e-12)
    assert how.std == pytest.approx(x.std((0, 2, 3)) / 255, rel=1e-12)


def test_small_differences_of_large_numbers_are_not_lost():
    x = 1e9 + RANDOM.normal(0, 1, (1000, 1))
    assert fit(x).std == pytest.approx(x.std(0), rel=1e-6)


def test_what_is_constant_is_divided_by_1():
    x = np.full((50, 2, 4, 4), 0.1, np.float32)
    x[:, 1] = RANDOM.normal(5, 2, (50, 4, 4))
    how = fit(x)
    assert how.std[0] == 1
    assert how.std[1] == pytest.approx(2, rel=0.1)
    assert fit(np.zeros((5, 3), np.uint8)) == Normalisation(1 / 255, (0.0,) * 3, (1.0,) * 3)
    assert fit(np.full((5, 1), 1e30, np.float32)).std == (1.0,)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint16, bool])
def test_whole_numbers_may_be_tokens_and_are_left_alone(dtype):
    x = np.arange(12).reshape(6, 2).astype(dtype)
    assert fit(x) is None
    assert fit(x, takes_whole_numbers=True).mean == pytest.approx(x.mean(0))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value):
    x = FEATURES.copy()
    x[7, 2] = value
    with pytest.raises(ConfigError, match="^column 'x' has values that are not finite"):
        fit(x)


@pytest.mark.parametrize(
    "fields", [(1, [0.0], [0.0]), (1, [0.0], [1.0, 1.0]), (1, [], []), (1e999, [0.0], [1.0]), (1, [-1e999], [1.0])]
)
def test_normalisation_from_the_network_is_checked(fields):
    with pytest.raises(msgspec.ValidationError, match="finite numbers"):
        msgspec.convert(dict(zip(("scale", "mean", "std"), fields, strict=True)), Normalisation)


# Layouts.


def test_images_may_have_their_channels_last():
    layer, x = Standardise(fit(IMAGES), (3, 8, 7)), torch.from_numpy(IMAGES)
    assert torch.equal(layer(x.permute(0, 2, 3, 1)), layer(x))


def test_grey_images_may_lack_the_axis_of_their_channel():
    x = torch.from_numpy(RANDOM.integers(0, 256, (5, 1, 28, 28), dtype=np.uint8))
    layer = Standardise(Normalisation(1 / 255, (0.1307,), (0.3081,)), (1, 28, 28))
    for raw in (x[:, 0], x.permute(0, 2, 3, 1)):
        assert torch.equal(layer(raw), layer(x))
        assert layer(raw).shape == (5, 1, 28, 28)


def test_images_of_another_size_are_standardised_alike():
    layer = Standardise(fit(IMAGES), (3, 8, 7))
    x = torch.from_numpy(IMAGES)
    assert torch.equal(layer(x[:, :, :4, :5]), layer(x)[:, :, :4, :5])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool, torch.float64])
def test_until_it_is_fitted_it_only_makes_floats(dtype):
    x = torch.ones(3, 2, dtype=dtype)
    assert torch.equal(Standardise()(x), torch.ones(3, 2))


def test_samples_are_not_changed():
    x = torch.from_numpy(FEATURES.astype(np.float32))
    before = x.clone()
    Standardise(fit(FEATURES), (4,))(x)
    assert torch.equal(x, before)


# Saved with the model.


def test_a_fitted_state_makes_a_fitted_layer_of_one_that_is_not():
    for x in (FEATURES, IMAGES):
        fitted, fresh = Standardise(fit(x), x.shape[1:]), Standardise()
        fresh.load_state_dict(fitted.state_dict())
        assert torch.equal(fresh(torch.from_numpy(x)), fitted(torch.from_numpy(x)))
        whole, other = nn.Sequential(fitted, nn.Flatten()), nn.Sequential(Standardise(), nn.Flatten())
        other.load_state_dict(whole.state_dict())
        assert torch.equal(other(torch.from_numpy(x)), whole(torch.from_numpy(x)))


def test_targets_come_out_in_their_units():
    y = np.array([[0, 100], [50, 130], [255, 200]], np.uint8)
    how = fit(y, takes_whole_numbers=True)
    outputs = torch.from_numpy(StandardScaler().fit_transform(y)).float()
    np.testing.assert_allclose(Rescale(how)(outputs), y, rtol=1e-5, atol=1e-3)


def test_a_whole_model_holds_what_was_fitted_as_buffers():
    whole = WholeModel(nn.Linear(4, 1), Standardise(fit(FEATURES), (4,)), Rescale(fit(FEATURES[:, :1])))
    names = {"preprocessing.scale", "preprocessing.shift", "postprocessing.std", "postprocessing.mean"}
    assert fitted_buffers(whole) == names
    assert whole.state_dict().keys() == names | {"model.weight", "model.bias"}
    assert [name for name, _ in whole.named_parameters()] == ["model.weight", "model.bias"]
    inner, x = whole.model, torch.from_numpy(FEATURES)
    torch.testing.assert_close(whole(x), whole.postprocessing(inner(whole.preprocessing(x))))
    torch.testing.assert_close(whole(x), whole.learned(whole.preprocessing(x)))
    assert WholeModel(inner, whole.preprocessing, None).learned is inner
