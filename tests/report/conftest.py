"""Shared by the tests of reports: folders with a run in them, a pool, a gossip run and a split run."""

import pytest

from tests.report.synthetic import JOB, record, run_events
from tests.report.synthetic_gossip import record_gossip
from tests.report.synthetic_pool import record_pool
from tests.report.synthetic_split import record_split


@pytest.fixture
def make_run(tmp_path):
    """Record events as a run of this name; gives its folder, closed."""

    def make_run(events=None, name="digits"):
        return record(tmp_path, name, JOB, run_events() if events is None else events)

    return make_run


@pytest.fixture
def make_any(tmp_path, make_run):
    """Record a run of a kind: job, pool, gossip or split; gives its folder, closed."""
    makers = {"pool": record_pool, "gossip": record_gossip, "split": record_split}
    return lambda kind: make_run() if kind == "job" else makers[kind](tmp_path)
