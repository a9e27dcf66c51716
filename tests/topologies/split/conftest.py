"""Runs here end with a look for garbage: what was there before is none."""

import gc

import pytest


@pytest.fixture(scope="session", autouse=True)
def frozen():
    """Nothing that is there when the tests begin is looked at by the collector, which takes long with all of torch."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
