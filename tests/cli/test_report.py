"""``paceline report`` as a user sees it."""

import json

import pytest

from paceline.report import RunFolder
from tests.report.synthetic import JOB, run_events
from tests.report.synthetic_gossip import record_gossip
from tests.report.synthetic_pool import record_pool
from tests.report.synthetic_split import record_split


def record_run(folder):
    with RunFolder.create(folder, "digits", JOB) as run:
        for event in run_events(rounds=2):
            run.record(event)
    return run


def test_a_page_elsewhere_with_another_intensity_of_carbon(printed, refused, tmp_path):
    run = record_run(tmp_path).path
    page = tmp_path / "page.html"
    out = printed("report", run, "--output", page, "--grams-per-kwh", 345, "--json")
    assert json.loads(out) == {"report": str(page)}
    assert "Each kWh is taken to emit 345 g of CO₂ equivalents." in page.read_text()
    assert "--grams-per-kwh" in refused("report", run, "--grams-per-kwh", -1)
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (record_run, "Each kWh is taken to emit 243 g of CO₂ equivalents."),
        (record_pool, "Paceline pool"),
        (record_gossip, "Paceline gossip"),
        (record_split, "Paceline split"),
    ],
)
def test_the_page_of_any_run_is_written_into_it(printed, tmp_path, record, text):
    path = record(tmp_path).path
    assert printed("report", path) == f"The report is in {path / 'report.html'}\n"
    page = (path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert text in page
    for job in path.glob("jobs/*"):
        printed("report", job)
        assert "Paceline run" in (job / "report.html").read_text()


def test_what_is_not_a_run(refused, tmp_path):
    run = record_run(tmp_path).path
    assert refused("report", run.with_name("digit")).endswith(f"digit: no such folder; did you mean {run}?")
