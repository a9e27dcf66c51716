"""Shared by the tests of learning: where the large datasets are, and training that other work does not hold up."""

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Train small models in one thread: with several, each step would wait for all of them to get a core."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture
def shared_data():
    """The first folder of ``$PACELINE_DATA``, which holds the large datasets."""
    folder = os.environ.get("PACELINE_DATA", "").split(os.pathsep)[0]
    if folder:
        return Path(folder)
    reason = "PACELINE_DATA is not set: no large datasets to test with"
    if os.environ.get("PACELINE_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
