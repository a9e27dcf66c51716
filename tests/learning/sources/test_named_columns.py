"""Arrays by name in .npz files and folders of .npy files."""

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning.sources import load_own, load_source
from paceline.learning.tables import Column


def save_npz(path, arrays):
    np.savez(path / "own.npz", **arrays)
    return str(path / "own.npz")


def save_npy(path, arrays):
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return str(path)


BOTH = pytest.mark.parametrize("save", [save_npz, save_npy])


def reviews(num_train=6, num_test=3):
    sizes = {"train": num_train, "test": num_test}
    return {
        f"{name}_{part}": array[:size]
        for part, size in sizes.items()
        for name, array in {
            "label": np.arange(9) % 2 == 0,
            "tokens": np.arange(36).reshape(9, 4),
            "weight": np.linspace(0, 1, 9, dtype=np.float16),
        }.items()
    }


@BOTH
def test_arrays_of_any_name_and_type_become_dicts_with_the_label_last(tmp_path, save):
    train, test = load_source(save(tmp_path, reviews() | {"key_train": np.array(list("abcabc"))}))
    assert (train.structure, len(train), len(test)) == ("dict", 6, 3)
    assert train.columns == test.columns
    assert train.columns == (
        Column("tokens", "int64", (4,)),
        Column("weight", "float16", ()),
        Column("label", "bool", ()),
    )
    assert train.take(slice(None))[0].tolist() == np.arange(24).reshape(6, 4).tolist()
    assert train.labels().tolist() == [True, False] * 3


@BOTH
@pytest.mark.parametrize(
    ("x", "y", "columns"),
    [
        (np.zeros((6, 5, 4), np.uint8), np.arange(6), [("x", "uint8", (1, 5, 4)), ("y", "uint8", ())]),
        (np.zeros((6, 5, 7, 3), np.uint8), np.arange(6) * 100, [("x", "uint8", (3, 5, 7)), ("y", "int32", ())]),
        (np.zeros((6, 5), np.float32), np.zeros(6, np.float32), [("x", "float32", (5,)), ("y", "float32", ())]),
        (np.zeros((6, 5), np.int64), np.zeros((6, 5), np.int64), [("x", "int64", (5,)), ("y", "int64", (5,))]),
        (np.zeros((6, 5), np.int32), np.zeros(6, bool), [("x", "int32", (5,)), ("y", "uint8", ())]),
        (np.zeros((6, 5), np.float32), np.zeros((6, 3), np.uint8), [("x", "float32", (5,)), ("y", "uint8", (3,))]),
    ],
)
def test_x_and_y_take_their_normal_form(tmp_path, save, x, y, columns):
    arrays = {"x_train": x, "y_train": y, "x_test": x[:2], "y_test": y[:2]}
    train, test = load_source(save(tmp_path, arrays))
    assert (train.structure, len(train), len(test)) == ("tuple", 6, 2)
    assert [(column.name, column.dtype, column.shape) for column in train.columns] == columns
    assert test.columns == train.columns


@BOTH
def test_samples_need_no_labels_and_no_test_part(tmp_path, save):
    where = save(tmp_path, {"x_train": np.arange(20).reshape(10, 2)})
    train, test = load_source(where)
    assert (train.structure, len(train), len(test)) == ("tensor", 8, 2)
    both = np.concatenate([train.take(slice(None)).x, test.take(slice(None)).x])
    assert sorted(both.tolist()) == np.arange(20).reshape(10, 2).tolist()
    assert len(load_own(where)) == 10


def test_a_folder_is_mapped_and_an_npz_file_is_in_memory(tmp_path):
    assert load_source(save_npz(tmp_path, reviews()))[0].is_in_memory
    (tmp_path / "folder").mkdir()
    train, _ = load_source(save_npy(tmp_path / "folder", reviews()))
    assert not train.is_in_memory
    assert not train.reordered(np.array([1, 0])).is_in_memory


@BOTH
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("tokens_test"), "lacks tokens_test; it has "),
        (lambda arrays: arrays.pop("label_train"), "lacks label_train; it has "),
        (lambda arrays: arrays.update(weight_test=np.zeros((3, 2), np.float16)), "differ: .*weight float16 \\(2,\\)"),
        (lambda arrays: arrays.update(weight_test=np.zeros(2, np.float16)), "test part: columns have different num"),
        (lambda arrays: arrays.update(label_train=np.array(["a"] * 6)), "label is text; allowed: bool, whole numbers"),
        (lambda arrays: (arrays.clear(), arrays.update(images=np.zeros(3))), "lacks x_train, y_train; it has "),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, save, change, message):
    arrays = reviews()
    change(arrays)
    where = save(tmp_path, arrays)
    with pytest.raises(ConfigError, match=f"^{where}.*{message}") as caught:
        load_source(where)
    assert "\n" not in str(caught.value)


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "x_train.npy", np.array([{}, None]), allow_pickle=True)
    with pytest.raises(ConfigError, match=r"x_train.npy: not a readable .npy file: .*[Oo]bject"):
        load_source(str(tmp_path))
    (tmp_path / "x_train.npy").write_bytes(b"\x80\x04K\x01.\n\n\n\n")
    with pytest.raises(ConfigError, match=r"x_train.npy: not a readable .npy file: the magic string"):
        load_source(str(tmp_path))
