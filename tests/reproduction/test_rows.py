"""Rows of results, as CSV and back."""

import numpy as np
import pytest

from paceline.errors import ConfigError
from reproduction.rows import by_seed, read_rows, where, write_rows


def test_rows_survive_the_file(tmp_path):
    rows = [
        {"seed": 0, "name": "a, b", "count": 3, "value": 0.1 + 0.2, "is_on": True, "none": None},
        {"seed": 1, "name": "ü", "count": np.int64(4), "value": np.float32(0.5), "is_on": False, "none": None},
    ]
    path = tmp_path / "rows.csv"
    assert list(write_rows(path, rows)) == rows
    read = read_rows(path)
    assert read[0] == {"seed": 0, "name": "a, b", "count": 3, "value": 0.1 + 0.2, "is_on": 1, "none": None}
    assert (read[1]["name"], read[1]["count"], read[1]["value"], read[1]["is_on"]) == ("ü", 4, 0.5, 0)


def test_rows_are_on_disk_as_they_come(tmp_path):
    path = tmp_path / "rows.csv"
    writing = write_rows(path, ({"n": n} for n in range(3)))
    next(writing)
    assert path.read_text() == "n\n0\n"
    writing.close()


def test_columns_must_stay(tmp_path):
    with pytest.raises(ConfigError, match="the columns b; the first had a"):
        list(write_rows(tmp_path / "rows.csv", [{"a": 1}, {"b": 1}]))


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_rows(tmp_path / "none.csv")


def test_picking_rows():
    rows = [{"seed": 1, "x": "a"}, {"seed": 0, "x": "b"}, {"seed": 1, "x": "b"}]
    assert where(rows, x="b") == rows[1:]
    assert where(rows, x="b", seed=1) == rows[2:]
    assert by_seed(rows) == {1: [rows[0], rows[2]], 0: [rows[1]]}
