"""Datasets: the embedded digits, where files are looked for, and normalisation."""

import gzip
import struct
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pytest
from sklearn.datasets import load_digits

from paceline.errors import ConfigError
from paceline.learning.datasets import DATASETS, DataSpec, Normalisation, default_directories, load
from tests.learning.small_data import small, write_npz

KEYS = ("x_train", "y_train", "x_test", "y_test")


def write_idx(folder, arrays, parts, suffix):
    folder.mkdir(parents=True, exist_ok=True)
    kinds = [f"{part}-{kind}" for part in parts for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    for name, key in zip(kinds, KEYS, strict=True):
        array = arrays[key]
        content = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "mnist", "path": "a.npz"}, "either a name, a path or an import, not name 'mnist' and path 'a.npz'"),
        ({"name": "minst"}, "'minst' is unknown; did you mean 'mnist'. Allowed: digits, mnist, "),
        ({"placement": "remote"}, "Invalid enum value 'remote'"),
        ({"shards": 3}, "unknown field `shards`"),
    ],
)
def test_bad_specs_are_refused(fields, message):
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(fields, DataSpec)


def test_digits_are_those_of_scikit_learn_a_fifth_of_each_class_for_testing_once_and_for_all():
    data, original = load(DataSpec(), directories=[]), load_digits()
    assert (data.name, data.input_shape, data.num_classes) == ("digits", (1, 8, 8), 10)
    assert (data.x_train.dtype, data.y_train.dtype) == (np.uint8, np.uint8)
    assert zlib.crc32(data.x_test.tobytes() + data.y_test.tobytes()) == 3000327782
    random, is_test = np.random.RandomState(0), np.zeros(1797, bool)
    for label in range(10):
        members = np.flatnonzero(original.target == label)
        is_test[random.permutation(members)[: round(len(members) / 5)]] = True
    greys = np.rint(original.images[:, None] * (255 / 16))
    for x, y, part in ((data.x_train, data.y_train, ~is_test), (data.x_test, data.y_test, is_test)):
        assert np.array_equal(x, greys[part])
        assert np.array_equal(y, original.target[part])


def test_statistics_of_many_chunks_are_those_of_the_whole():
    x = np.random.default_rng(0).integers(0, 256, (700, 2, 40, 40), dtype=np.uint8)
    how = Normalisation.of(x)
    assert how.scale == 1 / 255
    assert how.mean == pytest.approx(x.mean((0, 2, 3)) / 255)
    assert how.std == pytest.approx(x.std((0, 2, 3)) / 255)


def test_a_constant_channel_is_divided_by_1():
    x = np.full((50, 2, 4, 4), 0.1, np.float32)
    x[:, 1] = np.random.default_rng(0).normal(5, 2, (50, 4, 4))
    how = Normalisation.of(x)
    assert how.std[0] == 1
    assert how.std[1] == pytest.approx(2, rel=0.1)
    assert Normalisation.of(np.zeros((5, 3), np.uint8)) == Normalisation(1 / 255, (0.0,), (1.0,))


@pytest.mark.parametrize(
    "fields", [(1, [0.0], [0.0]), (1, [0.0], [1.0, 1.0]), (1, [], []), (1e999, [0.0], [1.0]), (1, [-1e999], [1.0])]
)
def test_normalisation_from_the_network_is_checked(fields):
    with pytest.raises(msgspec.ValidationError, match="finite numbers"):
        msgspec.convert(dict(zip(("scale", "mean", "std"), fields, strict=True)), Normalisation)


def test_a_named_dataset_has_no_more_classes_than_it_was_published_with(tmp_path):
    path = write_npz(tmp_path / "mnist.npz", **small(num_classes=11))
    with pytest.raises(ConfigError, match=f"{path}: y_train has the label 10; allowed: 0 to 9"):
        load(DataSpec(name="mnist"), [tmp_path])


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "folder", "parts"),
    [
        ("mnist", "mnist", ("train", "t10k")),
        ("mnist", ".", ("train", "t10k")),
        ("fashion-mnist", "fashion-mnist", ("train", "t10k")),
        ("emnist", "emnist", ("emnist-byclass-train", "emnist-byclass-test")),
    ],
)
def test_original_files_are_read_and_those_of_emnist_turned_upright(tmp_path, name, folder, parts, suffix):
    arrays = small()
    write_idx(tmp_path / folder, arrays, parts, suffix)
    data = load(DataSpec(name=name), [tmp_path])
    assert (data.name, data.input_shape, data.x_train.flags.c_contiguous) == (name, (1, 28, 28), True)
    for part in ("train", "test"):
        images = arrays[f"x_{part}"]
        upright = images.transpose(0, 2, 1) if name == "emnist" else images
        assert np.array_equal(getattr(data, f"x_{part}")[:, 0], upright)
        assert np.array_equal(getattr(data, f"y_{part}"), arrays[f"y_{part}"])


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "digits"])
def test_what_is_missing_is_told_with_where_and_what_to_do(tmp_path, name, monkeypatch):
    monkeypatch.setenv("PACELINE_DATA", f"{tmp_path}/a")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    with pytest.raises(ConfigError) as caught:
        load(DataSpec(name=name))
    message = str(caught.value)
    assert message.startswith(f"dataset {name!r} was not found in {tmp_path}/a, {tmp_path}/cache/paceline; put")
    assert f"{name}.npz" in message
    assert ("images-idx3-ubyte" in message) == (name != "cifar10")
    assert "\n" not in message


def test_places_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("PACELINE_DATA", "/a::/b")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_directories() == [Path("/a"), Path("/b"), Path("/cache/paceline")]
    monkeypatch.delenv("PACELINE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_directories() == [Path("/home/someone/.cache/paceline")]


@pytest.mark.parametrize(
    ("name", "num_train", "num_test", "input_shape", "num_classes"),
    [
        ("mnist", 60_000, 10_000, (1, 28, 28), 10),
        ("fashion-mnist", 60_000, 10_000, (1, 28, 28), 10),
        ("emnist", 96_323, 20_000, (1, 28, 28), 62),
        ("cifar10", 20_000, 5_000, (3, 32, 32), 10),
    ],
)
def test_large_datasets_are_read(shared_data, name, num_train, num_test, input_shape, num_classes):
    data = load(DataSpec(name=name), [shared_data])
    assert (len(data.x_train), len(data.y_test)) == (num_train, num_test)
    assert (data.input_shape, data.num_classes) == (input_shape, num_classes)
    assert data.x_train.flags.c_contiguous
    if name == "mnist":  # as every tutorial has it
        assert data.normalisation.mean == pytest.approx([0.1307], abs=5e-5)
        assert data.normalisation.std == pytest.approx([0.3081], abs=5e-5)
        assert np.bincount(data.y_train).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
