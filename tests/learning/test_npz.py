"""The normal form: what files may hold, what becomes of it, and every refusal."""

import io

import numpy as np
import pytest

from paceline.errors import ConfigError
from tests.learning.small_data import load_path, small, write_npz


@pytest.mark.parametrize(
    ("shape", "input_shape"),
    [
        ((28, 28), (1, 28, 28)),
        ((1, 28, 28), (1, 28, 28)),
        ((28, 28, 1), (1, 28, 28)),
        ((32, 30, 3), (3, 32, 30)),
        ((3, 32, 30), (3, 32, 30)),
        ((3, 32, 3), (3, 32, 3)),
        ((7, 8, 9), (7, 8, 9)),
        ((6,), (6,)),
    ],
)
def test_images_become_channels_first(tmp_path, shape, input_shape):
    arrays = small(shape)
    data = load_path(write_npz(tmp_path / "own.npz", **arrays))
    assert (data.name, data.train.columns[0].shape) == ("own", input_shape)
    for table, original in ((data.train, arrays["x_train"]), (data.test, arrays["x_test"])):
        x = table.take(slice(None)).x
        assert x.dtype == np.uint8
        assert x.flags.c_contiguous
        colour_last = len(shape) == 3 and input_shape != shape
        assert np.array_equal(x, np.moveaxis(original, 3, 1) if colour_last else original.reshape(x.shape))


@pytest.mark.parametrize("dtype", [np.int64, np.uint16, ">i4"])
def test_labels_of_many_classes_are_int32_in_both_parts(tmp_path, dtype):
    arrays = small((3,))
    for factor, normal in ((30, np.int32), (1, np.uint8)):
        labels = arrays["y_train"].astype(dtype) * factor
        data = load_path(write_npz(tmp_path / "own.npz", **arrays | {"y_train": labels}))
        found = data.train.labels()
        assert (found.dtype, data.test.labels().dtype) == (normal, normal)
        assert found.dtype.isnative
        assert np.array_equal(found, labels)


def change(key, value):
    return lambda arrays: arrays.__setitem__(key, value(arrays[key]))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda arrays: arrays.pop("y_test"), "lacks y_test; it has x_train, y_train, x_test"),
        (change("x_train", lambda x: x[:-1]), "x_train has 29 samples and y_train 30 labels"),
        (change("x_train", lambda x: x.astype(np.complex64)), "x_train is of type complex64; allowed: uint8, float32"),
        (change("x_train", lambda x: x[0, 0]), r"x_train has shape \(28,\); allowed: \(N, features\)"),
        (change("x_test", lambda x: x[:, 1:]), r"differ: .* x uint8 \(1, 28, 28\), .* x uint8 \(1, 27, 28\)"),
        (change("x_train", lambda x: np.where(x == 7, np.nan, x)), "x_train has values that are not finite"),
        (change("y_train", lambda y: y.astype(str)), r"y_train is <U\d+ of shape \(30,\); labels are numbers"),
        (change("y_train", lambda y: np.where(y == 3, np.inf, y)), "y_train has values that are not finite"),
        (change("y_train", lambda y: y[:0]), "y_train is empty"),
        (change("y_train", lambda y: y.astype(np.int64) - 3), "y_train has the label -3; allowed: 0 to 65535"),
        (change("y_train", lambda y: y.astype(object)), "not a readable .npz file: Object arrays cannot be loaded"),
    ],
)
def test_files_that_are_not_what_they_should_be_are_refused(tmp_path, damage, reason):
    arrays = small()
    damage(arrays)
    path = write_npz(tmp_path / "own.npz", **arrays)
    with pytest.raises(ConfigError, match=f"^{path}: .*{reason}") as caught:
        load_path(path)
    assert "\n" not in str(caught.value)


def npy():
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


@pytest.mark.parametrize("content", [b"", b"PK", npy(), b"\x80\x04K\x01.", b"text\n"])
def test_files_of_another_kind_are_refused(tmp_path, content):
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{path}: not a readable .npz file: it is not a whole zip archive"):
        load_path(path)


@pytest.mark.filterwarnings("ignore:Reading `.npy`")  # NumPy takes some damaged headers for those of Python 2
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_files_are_refused_in_one_line_whatever_the_damage(tmp_path, save):
    path = tmp_path / "own.npz"
    save(path, **small((2, 2), num_train=4, num_test=2))
    whole, random = path.read_bytes(), np.random.default_rng(0)
    refusals = []
    for position in range(0, len(whole), 3):
        cut = whole[:position]
        flipped = cut + bytes((whole[position] ^ random.integers(1, 256),)) + whole[position + 1 :]
        for content in (cut, flipped):
            path.write_bytes(content)
            try:
                load_path(path)
            except ConfigError as error:
                refusals.append(str(error))
    assert len(refusals) > len(whole) / 3
    assert all(refusal.startswith(f"{path}: ") and "\n" not in refusal for refusal in refusals)
