"""A small experiment to test the frame with."""

import sys

import pytest

from tests.reproduction.coin import write_coin


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    """A folder of experiments with one in it, to be changed within a second: nothing of it is kept compiled."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write_coin(tmp_path / "experiments" / "coin-toss")
    return tmp_path / "experiments"
