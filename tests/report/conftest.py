"""Shared by the tests of reports: folders with a run in them, a pool, a gossip run and a split run."""

import threading

import psutil
import pytest

from tests.conftest import leftover_threads
from tests.report.chromium import Window, require_browser
from tests.report.synthetic import JOB, record, run_events
from tests.report.synthetic_gossip import record_gossip
from tests.report.synthetic_pool import record_pool
from tests.report.synthetic_split import record_split


@pytest.fixture(autouse=True)
def no_leftovers():
    """A test leaves no thread and no process behind, except the browser that the tests of a module share."""
    threads, children = set(threading.enumerate()), psutil.Process().children()
    yield
    assert leftover_threads(threads) == []
    left = [one for one in psutil.Process().children() if one not in children and one.name() != "chromedriver"]
    _, alive = psutil.wait_procs(left, timeout=5)
    assert alive == []


@pytest.fixture(scope="module")
def window():
    """Share a browser among the tests of a module."""
    require_browser()
    with Window() as window:
        yield window


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
