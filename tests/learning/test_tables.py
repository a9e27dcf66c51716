"""Tables: columns in memory, mapped from files, and made one by one."""

import numpy as np
import pytest
import torch

from paceline.errors import ConfigError
from paceline.learning.shards import Shard, ShardStore
from paceline.learning.tables import ArrayTable, Column, SourceTable, is_mapped


class Reviews:
    """Tokens and a label for each number; what a test needs to be odd is given by number."""

    def __init__(self, length=20, **odd):
        self._length, self._odd = length, {int(name[1:]): sample for name, sample in odd.items()}

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        return self._odd.get(index, (torch.full((4,), index, dtype=torch.int64), index % 3))


def mapped(tmp_path, array, name="x.npy"):
    np.save(tmp_path / name, array)
    return np.load(tmp_path / name, mmap_mode="r")


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", ">i4"])
def test_columns_may_be_of_any_type_of_numbers(tmp_path, dtype):
    array = (np.arange(12) % 2).astype(dtype).reshape(6, 2)
    for column in (array, mapped(tmp_path, array)):
        table = ArrayTable({"x": column, "y": np.arange(6)})
        assert table.columns == (Column("x", array.dtype.name, (2,)), Column("y", "int64", ()))
        x, y = table.take(np.array([4, 1]))
        assert x.dtype == array.dtype.newbyteorder("=")
        assert np.array_equal(x, array[[4, 1]])
        assert y.tolist() == [4, 1]
        assert torch.from_numpy(x).shape == (2, 2)
        assert table.labels().tolist() == list(range(6))
        assert table.sample_bytes == 2 * array.itemsize + 8


@pytest.mark.parametrize(
    ("arrays", "structure", "message"),
    [
        ({"x": np.array(["a", "b"])}, "tuple", "own: x is text; allowed: bool, whole numbers and floats"),
        ({"x": np.array([None, {}])}, "tuple", "own: x is Python objects"),
        ({"x": np.zeros(2, complex)}, "tuple", "own: x is complex128"),
        ({"x": np.zeros(2, np.longdouble)}, "tuple", "own: x is float128|longdouble"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2)}, "tuple", "different numbers of samples: x 3, y 2"),
        ({"x": np.zeros((0, 2))}, "tuple", r"own: x is empty: its shape is \(0, 2\)"),
        ({"x": np.float32(3)[...]}, "tuple", "own: x is a single number"),
        ({}, "tuple", "there are 0 columns; samples that are a tuple need at least one column"),
        ({"x": np.zeros(2), "y": np.zeros(2)}, "tensor", "there are 2 columns; samples that are a tensor need one"),
    ],
)
def test_arrays_that_are_no_columns_are_refused(arrays, structure, message):
    with pytest.raises(ConfigError, match=message) as caught:
        ArrayTable(arrays, structure, where="own")
    assert "\n" not in str(caught.value)


def test_in_memory_slices_are_views_and_an_order_is_copied_once():
    x = np.arange(10)
    table = ArrayTable({"x": x})
    assert np.shares_memory(table.take(slice(2, 5)).x, x)
    turned = table.reordered(np.arange(9, -1, -1))
    assert turned.is_in_memory
    assert turned.take(slice(3)).x.tolist() == [9, 8, 7]
    assert np.shares_memory(turned.take(slice(3)).x, turned.take(slice(2, 4)).x)
    assert not np.shares_memory(turned.take(slice(None)).x, x)


def test_mapped_files_are_read_when_rows_are_taken(tmp_path):
    x = mapped(tmp_path, np.arange(20, dtype=np.float16).reshape(10, 2))
    table = ArrayTable({"x": x, "y": np.arange(10)})
    turned = table.reordered(np.arange(9, -1, -1)).reordered(np.array([0, 5, 9]))
    assert not table.is_in_memory
    assert not turned.is_in_memory
    taken = turned.take(slice(None))
    assert taken.x.tolist() == [[18, 19], [8, 9], [0, 1]]
    assert taken.y.tolist() == turned.labels().tolist() == [9, 4, 0]
    assert not is_mapped(taken.x)
    assert not is_mapped(table.take(slice(2, 4)).x)


def test_a_map_that_can_be_written_counts_as_memory(tmp_path):
    mapped(tmp_path, np.zeros(4))
    assert not is_mapped(np.load(tmp_path / "x.npy", mmap_mode="c"))


def test_views_of_a_map_are_mapped(tmp_path):
    x = mapped(tmp_path, np.zeros((4, 5, 6, 3), np.uint8))
    assert is_mapped(x.transpose(0, 3, 1, 2))
    assert ArrayTable({"x": x.transpose(0, 3, 1, 2)}).take(slice(2)).x.flags.c_contiguous


def test_pages_of_a_map_are_released_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("paceline.learning.tables._MAX_MAPPED_BYTES", 1)  # after every row
    array = np.random.default_rng(0).integers(0, 256, (50, 100), dtype=np.uint8)
    table = ArrayTable({"x": mapped(tmp_path, array)})
    for _ in range(2):
        assert np.array_equal(table.take(slice(None)).x, array)


def test_samples_of_a_source_become_rows():
    table = SourceTable(Reviews(), "reviews")
    assert (len(table), table.structure, table.is_in_memory) == (20, "tuple", False)
    assert table.columns == (Column("x", "int64", (4,)), Column("y", "int64", ()))
    taken = table.take(np.array([7, 2]))
    assert taken.x.tolist() == [[7] * 4, [2] * 4]
    assert taken.y.tolist() == [1, 2]
    assert table.labels().tolist() == [number % 3 for number in range(20)]
    assert table.reordered(np.array([5, 3])).take(slice(None)).y.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("sample", "structure", "columns"),
    [
        (3.5, "tensor", [("x", "float32", ())]),
        (torch.ones(2, requires_grad=True), "tensor", [("x", "float32", (2,))]),
        (np.float64(2), "tensor", [("x", "float64", ())]),
        (True, "tensor", [("x", "bool", ())]),
        (([1, 2], 0.5), "tuple", [("x", "int64", (2,)), ("y", "float32", ())]),
        ((1, 2, 3), "tuple", [("x1", "int64", ()), ("x2", "int64", ()), ("y", "int64", ())]),
        ({"ids": np.zeros(3, np.int32), "label": 1}, "dict", [("ids", "int32", (3,)), ("label", "int64", ())]),
        ({"label": 1, "b": 2, "a": 3.0}, "dict", [("b", "int64", ()), ("a", "float32", ()), ("label", "int64", ())]),
    ],
)
def test_samples_may_be_numbers_arrays_tensors_tuples_and_dicts(sample, structure, columns):
    table = SourceTable([sample, sample], "own")
    assert table.structure == structure
    assert [(column.name, column.dtype, column.shape) for column in table.columns] == columns
    assert all(len(array) == 2 for array in table.take(slice(None)))


ODD = {
    "n17": (
        (torch.zeros(3, dtype=torch.int64), 0),
        r"sample 17 of own has shape \(3,\) in column 0 \(x\), the first has \(4,\): pad or crop samples to one size",
    ),
    "n3": ((torch.zeros(4), 0), r"sample 3 of own is float32 in column 0 \(x\), the first is int64: convert"),
    "n4": ({"x": 1, "y": 2}, "sample 4 of own is a dict of x, y, the first is a tuple of x, y"),
    "n5": ((torch.zeros(4, dtype=torch.int64),), "sample 5 of own is a tuple of y, the first is a tuple of x, y"),
    "n6": (("good", 1), "sample 6 of own: x is text; allowed"),
    "n0": (([[1], [2, 3]], 1), "sample 0 of own: x is no array"),
}


@pytest.mark.parametrize("number", ODD)
def test_a_sample_unlike_the_first_is_named(number):
    sample, message = ODD[number]
    with pytest.raises(ConfigError, match=message) as caught:
        SourceTable(Reviews(**{number: sample}), "own").take(slice(None))
    assert "\n" not in str(caught.value)


def test_what_the_users_code_raises_is_one_line_with_the_sample():
    class Broken(Reviews):
        def __getitem__(self, index):
            return super().__getitem__(index) if index < 2 else {}["no\nkey"]

    with pytest.raises(ConfigError, match=r"sample 2 of own: KeyError: .*no") as caught:
        SourceTable(Broken(), "own").take(slice(None))
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="own has no samples"):
        SourceTable(Reviews(0), "own")


def test_a_shard_has_any_number_of_columns():
    shard = Shard(np.arange(3), np.ones((3, 2)), np.arange(3) * 2)
    assert (shard.num_samples, shard.x.tolist(), shard.y.tolist()) == (3, [0, 1, 2], [0, 2, 4])
    part = shard.take(slice(1, 3))
    assert isinstance(part, Shard)
    assert [array.shape for array in part] == [(2,), (2, 2), (2,)]


def test_a_store_gathers_shards_of_what_is_not_in_memory(tmp_path):
    x = np.arange(46, dtype=np.uint8).reshape(23, 2)
    arrays = {"x": x, "y": np.arange(23)}
    in_memory, lazy = (
        ShardStore(ArrayTable({**arrays, "x": column}), 5, seed=3) for column in (x, mapped(tmp_path, x))
    )
    assert (len(in_memory), in_memory.shard_bytes) == (len(lazy), lazy.shard_bytes) == (5, 5 * (2 + 8))
    for number in range(5):
        for one, other in zip(in_memory[number], lazy[number], strict=True):
            assert np.array_equal(one, other)
            assert other.flags.c_contiguous
    assert lazy[0].x.base is None  # one copy, no view of something larger
