"""Shared by the tests of learning: where the large datasets are."""

import os
from pathlib import Path

import pytest


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
