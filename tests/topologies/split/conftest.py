"""Fixtures of split tests."""

import pytest
import torch


@pytest.fixture
def one_thread():
    """Sums come out the same on any number of cores."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)
