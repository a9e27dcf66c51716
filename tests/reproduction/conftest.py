"""A small experiment to test the frame with."""

import pytest

from tests.reproduction.coin import write_coin


@pytest.fixture
def experiments(tmp_path):
    """A folder of experiments with one in it."""
    write_coin(tmp_path / "experiments" / "coin-toss")
    return tmp_path / "experiments"
