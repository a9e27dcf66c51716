"""Datasets: the embedded digits, and where files are looked for."""

import gzip
import struct
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pytest
from sklearn.datasets import load_digits

from paceline.errors import ConfigError
from paceline.learning.datasets import DATASETS, DataSpec, default_directories, load
from paceline.learning.preprocessing import Normalisation
from paceline.learning.tables import Column
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
    train, test = data.train.take(slice(None)), data.test.take(slice(None))
    assert data.name == "digits"
    assert data.train.columns == (Column("x", "uint8", (1, 8, 8)), Column("y", "uint8", ()))
    assert zlib.crc32(test.x.tobytes() + test.y.tobytes()) == 3000327782
    random, is_test = np.random.RandomState(0), np.zeros(1797, bool)
    for label in range(10):
        members = np.flatnonzero(original.target == label)
        is_test[random.permutation(members)[: round(len(members) / 5)]] = True
    greys = np.rint(original.images[:, None] * (255 / 16))
    for (x, y), part in ((train, ~is_test), (test, is_test)):
        assert np.array_equal(x, greys[part])
        assert np.array_equal(y, original.target[part])


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
    assert data.name == name
    for part, table in (("train", data.train), ("test", data.test)):
        (x, y), images = table.take(slice(None)), arrays[f"x_{part}"]
        upright = images.transpose(0, 2, 1) if name == "emnist" else images
        assert x.flags.c_contiguous
        assert np.array_equal(x, upright[:, None])
        assert np.array_equal(y, arrays[f"y_{part}"])


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
    assert (len(data.train), len(data.test)) == (num_train, num_test)
    assert data.train.columns[0] == Column("x", "uint8", input_shape)
    assert data.train.labels().max() == num_classes - 1
    if name == "mnist":  # as every tutorial has it
        normalisation = Normalisation.of(data.train)
        assert normalisation.mean == pytest.approx([0.1307], abs=5e-5)
        assert normalisation.std == pytest.approx([0.3081], abs=5e-5)
        assert np.bincount(data.train.labels()).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
