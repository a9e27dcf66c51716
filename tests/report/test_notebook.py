"""The bar of a notebook, without one: what it shows at each moment."""

import pytest

from paceline.report.notebook import NotebookBar
from paceline.topologies.gossip.report import GossipReporting
from paceline.topologies.parallel.pool_report import PoolReporting
from paceline.topologies.parallel.report import RunReporting
from paceline.topologies.split.report import SplitReporting
from tests.report.synthetic import run_events
from tests.report.synthetic_gossip import gossip_events
from tests.report.synthetic_pool import pool_events
from tests.report.synthetic_split import split_events


@pytest.fixture
def shown(monkeypatch):
    """What was shown, one after the other."""
    states = []
    monkeypatch.setattr(NotebookBar, "_show", lambda bar: states.append(bar._shown()))
    return states


@pytest.mark.parametrize(
    ("reporting", "events", "last"),
    [
        (RunReporting(), run_events, "round 10/10"),
        (GossipReporting(), gossip_events, "epoch 6/6"),
        (SplitReporting(), split_events, "epoch "),
    ],
)
def test_the_bar_grows_to_the_end_and_shows_the_last_round(shown, reporting, events, last):
    bar = NotebookBar(reporting.progress())
    for event in events():
        bar.feed(event)
    shares = [state["text/plain"].count("█") for state in shown]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 20)
    assert last in shown[-1]["text/plain"]
    assert shown[-1]["text/html"].startswith("<progress value='1.000' max='1'></progress> <code>")


def test_the_bar_of_a_pool_counts_the_rounds_of_all_jobs(shown):
    own, jobs = pool_events()
    bar = NotebookBar(PoolReporting().progress())
    for event in own:
        bar.feed(event, "")
    for name, events in jobs.items():
        for event in events:
            bar.feed(event, name)
    assert 0 < shown[-1]["text/plain"].count("█") <= 20


def test_text_of_others_is_escaped(shown):
    bar = NotebookBar(RunReporting().progress())
    bar._line = "<script>"
    assert "&lt;script&gt;" in bar._shown()["text/html"]
