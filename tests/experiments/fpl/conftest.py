"""Cases that are small enough for tests: digits."""

import pytest

from papers.fpl import setting
from papers.fpl.setting import FPL_F1, Case, Size


@pytest.fixture
def case():
    """FPL before the first fully connected layer, with 128 digits."""
    yield Case(FPL_F1, Size(128, 30, 2, None), 0, "digits")
    setting._prepared.cache_clear()
