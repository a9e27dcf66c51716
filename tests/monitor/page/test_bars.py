"""Bars of time per phase, and the data from which the page's script draws other rounds."""

import json

import pytest

from paceline.monitor import LearnerRound, summarise
from paceline.monitor.page.bars import PHASES, bar_row, draw_bars, stretches_of
from tests.monitor.page.reading import read_page
from tests.monitor.synthetic import run_events


@pytest.fixture(scope="module")
def summary():
    return summarise(run_events())


@pytest.fixture(scope="module")
def rows(summary):
    closed = {one.round: one for one in summary.rounds}
    return [bar_row(learner, closed) for learner in summary.learners]


@pytest.fixture(scope="module")
def page(summary, rows):
    return read_page(draw_bars(rows, summary.rounds, "note"))


def spent(work, summary):
    return dict(zip(PHASES, stretches_of(work, summary.rounds[0]), strict=True))


def test_phases_that_were_told(summary):
    work = LearnerRound(
        round=1, start_seconds=0.1, download_seconds=0.2, train_seconds=0.3, upload_seconds=0.1, arrival_seconds=0.7
    )
    phases = spent(work, summary)
    assert {phase: seconds for phase, seconds in phases.items() if seconds} == pytest.approx(
        {"wait": 0.1, "download": 0.2, "train": 0.3, "upload": 0.1, "idle": summary.rounds[0].seconds - 0.7}
    )


def test_phases_that_were_not_told(summary):
    phases = spent(LearnerRound(round=1, start_seconds=0.1, arrival_seconds=0.7), summary)
    assert (phases["working"], phases["train"]) == (pytest.approx(0.6), 0)
    assert phases["idle"] == pytest.approx(summary.rounds[0].seconds - 0.7)


def test_work_whose_update_never_came(summary):
    phases = spent(LearnerRound(round=1, start_seconds=0.1, download_seconds=0.2, train_seconds=0.3), summary)
    assert phases["lost"] == pytest.approx(summary.rounds[0].seconds - 0.6)
    assert phases["idle"] == 0


def test_the_mean_is_of_rounds_whose_update_came(rows):
    row = next(row for row in rows if row.name == "pi-4")
    assert dict(zip(PHASES, row.rounds[6], strict=True))["lost"] > 0
    assert dict(zip(PHASES, row.mean, strict=True))["lost"] == 0


def test_a_row_per_learner_with_its_bar_and_a_deadline(page, summary):
    table = page.one("table", id="bars")
    assert [head.text for head in table.all("th", scope="row")] == [one.name for one in summary.learners]
    for row in table.one("tbody").all("tr"):
        assert len(row.all("rect", class_="phase")) == len(PHASES)
        assert len(row.all("line", class_="deadline")) == 1
        assert (
            "train" in row.one("svg").attributes["aria-label"] or "working" in row.one("svg").attributes["aria-label"]
        )


def test_bars_end_where_the_learner_did(page, rows):
    scale = json.loads(page.one("script").text)["scale"]
    for row, drawn in zip(rows, page.one("tbody").all("tr"), strict=True):
        parts = [part.attributes for part in drawn.all("rect", class_="phase")]
        end = max(float(part["x"].rstrip("%")) + float(part["width"].rstrip("%")) for part in parts)
        assert end == pytest.approx(100 * sum(row.mean) / scale, abs=0.01)


def test_every_view_can_be_picked_and_has_data(page, rows):
    options = [option.attributes["value"] for option in page.one("select").all("option")]
    assert options == ["mean", "benchmark", *map(str, range(1, 11))]
    data = json.loads(page.one("script", id="bars-data").text)
    assert set(data["deadline"]) == set(options)
    assert len(data["phases"]) == len(data["busy"]) == len(PHASES)
    for row, views in zip(rows, data["rows"], strict=True):
        assert set(views) - {"mean", "benchmark"} == {str(number) for number in row.rounds}
        assert views["mean"] == pytest.approx(row.mean, rel=1e-3)
        assert ("benchmark" in views) == (row.benchmark_seconds is not None)


def test_the_legend_has_what_occurs(page):
    assert [entry.text for entry in page.one("ul", class_="legend").all("li")] == [
        *("benchmark", "download", "train", "upload", "working (phases not told)", "no update came", "idle")
    ]
