"""Fixtures of split tests."""

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Models here are small: more threads take longer, and sums would differ with their number."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)
