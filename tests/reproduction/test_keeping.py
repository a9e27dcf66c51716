"""Rows that are kept for others."""

import pytest

from reproduction import keeping
from reproduction.keeping import kept


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.py"
    path.write_text("one")
    return path


def make(rows):
    """Gives rows once."""
    left = [rows]
    return lambda: left.pop()


def test_rows_are_made_once(tmp_path, source):
    rows = [{"epoch": 1, "loss": 0.1 + 0.2, "name": "é", "none": None}]
    assert kept(("a", 1), (source,), make(rows), tmp_path / "kept") == rows
    assert kept(("a", 1), (source,), make(None), tmp_path / "kept") == rows


def test_another_key_or_source_or_package_makes_them_anew(tmp_path, source, monkeypatch):
    def play(key, rows):
        return kept((key,), (source,), make(rows), tmp_path)

    assert play("a", [{"x": 1}]) == [{"x": 1}]
    assert play("b", [{"x": 2}]) == [{"x": 2}]
    source.write_text("two")
    assert play("a", [{"x": 3}]) == [{"x": 3}]
    monkeypatch.setattr(keeping, "_source_digest", lambda: "other")
    assert play("a", [{"x": 4}]) == [{"x": 4}]


def test_what_is_damaged_is_made_anew(tmp_path, source):
    kept(("a",), (source,), make([{"x": 1}]), tmp_path)
    [file] = tmp_path.glob("*.json")
    file.write_text("[{")
    assert kept(("a",), (source,), make([{"x": 2}]), tmp_path) == [{"x": 2}]
    assert kept(("a",), (source,), make(None), tmp_path) == [{"x": 2}]


def test_a_folder_that_cannot_be_written_to_costs_nothing_else(tmp_path, source):
    (tmp_path / "file").write_text("")
    assert kept(("a",), (source,), make([{"x": 1}]), tmp_path / "file" / "kept") == [{"x": 1}]


def test_rows_are_kept_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert keeping.default_folder() == tmp_path / "paceline" / "trials"
