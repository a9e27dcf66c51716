"""Shared by the tests of reports: folders with a run in them, a pool, a gossip run and a split run."""

import functools

import pytest

from paceline.report import RunFolder
from tests.report.synthetic import JOB, run_events
from tests.report.synthetic_gossip import record_gossip
from tests.report.synthetic_pool import record_pool
from tests.report.synthetic_split import record_split


@pytest.fixture
def make_run(tmp_path):
    """Record events as a run of this name; gives its folder, closed."""

    def make_run(events=None, name="digits"):
        with RunFolder.create(tmp_path, name, JOB) as folder:
            for event in run_events() if events is None else events:
                folder.record(event)
        return folder

    return make_run


@pytest.fixture
def make_pool(tmp_path):
    """Record events as those of a pool and its jobs; gives its folder, closed."""
    return functools.partial(record_pool, tmp_path)


@pytest.fixture
def make_any(tmp_path, make_run):
    """Record a run of a kind: job, pool, gossip or split; gives its folder, closed."""
    makers = {"pool": record_pool, "gossip": record_gossip, "split": record_split}
    return lambda kind: make_run() if kind == "job" else makers[kind](tmp_path)
