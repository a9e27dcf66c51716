"""``paceline report`` as a user sees it."""

import json

import pytest
import typer
from typer.testing import CliRunner

from paceline.cli.report import report
from paceline.errors import ConfigError
from paceline.report import RunFolder
from tests.report.synthetic import JOB, run_events
from tests.report.synthetic_gossip import record_gossip
from tests.report.synthetic_pool import record_pool
from tests.report.synthetic_split import record_split


@pytest.fixture
def run(tmp_path):
    with RunFolder.create(tmp_path, "digits", JOB) as folder:
        for event in run_events(rounds=2):
            folder.record(event)
    return folder.path


@pytest.fixture
def invoke():
    app = typer.Typer(add_completion=False)
    app.command()(report)

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


def test_page_is_written_into_the_run(invoke, run):
    result = invoke(run)
    assert (result.exit_code, result.output) == (0, f"The report is in {run / 'report.html'}\n")
    assert (run / "report.html").read_text().startswith("<!doctype html>")


def test_elsewhere_and_as_json(invoke, run, tmp_path):
    result = invoke(run, "--output", tmp_path / "page.html", "--json")
    assert json.loads(result.output) == {"report": str(tmp_path / "page.html")}
    assert (tmp_path / "page.html").exists()
    assert not (run / "report.html").exists()


def test_carbon_by_the_intensity_that_is_given(invoke, run):
    invoke(run)
    assert "Each kWh is taken to emit 243 g of CO₂ equivalents." in (run / "report.html").read_text()
    invoke(run, "--grams-per-kwh", 345)
    assert "Each kWh is taken to emit 345 g of CO₂ equivalents." in (run / "report.html").read_text()
    assert invoke(run, "--grams-per-kwh", -1).exit_code == 2


@pytest.mark.parametrize(
    ("record", "title"),
    [(record_pool, "Paceline pool"), (record_gossip, "Paceline gossip"), (record_split, "Paceline split")],
)
def test_the_page_of_any_run(invoke, tmp_path, record, title):
    path = record(tmp_path).path
    result = invoke(path)
    assert (result.exit_code, result.output) == (0, f"The report is in {path / 'report.html'}\n")
    assert title in (path / "report.html").read_text()
    for job in path.glob("jobs/*"):
        assert invoke(job).exit_code == 0
        assert "Paceline run" in (job / "report.html").read_text()


def test_what_is_not_a_run(invoke, run):
    result = invoke(run.with_name("digit"))
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).endswith(f"digit: no such folder; did you mean {run}?")
