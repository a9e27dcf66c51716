"""A workload that is small enough for tests: digits."""

import pytest

from papers.gossip import setting
from papers.gossip.setting import Case, Size, Workload


@pytest.fixture
def case(monkeypatch):
    """Four platforms with 360 digits, of which the paper has as many as of everything."""
    ways = dict.fromkeys(setting.WAYS, 20_000.0)
    monkeypatch.setitem(setting.WORKLOADS, "two-nn", Workload("digits", 2000.0, ways))
    yield Case("two-nn", Size(360, 100, 3, 16), seed=0)
    setting.base_job.cache_clear()
