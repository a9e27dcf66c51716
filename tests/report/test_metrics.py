"""Whatever metrics a task has are recorded, shown and drawn as accuracy is, in runs of every kind."""

import csv
import io
import json
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from paceline.errors import ConfigError
from paceline.events import from_line, to_line
from paceline.learning.scores import Scores, fields_of
from paceline.report import RunFolder, write_report
from paceline.report.lines import LinePrinter
from paceline.topologies.base import JobProgress
from paceline.topologies.events import StartEvent
from paceline.topologies.gossip.events import ConsensusMeasured
from paceline.topologies.parallel.live_table import RunLiveTable
from paceline.topologies.reporting.shared import check_metric_names
from paceline.topologies.reporting.tables import Table, columns
from tests.report import synthetic, synthetic_gossip, synthetic_pool, synthetic_split


def of_regression(event):
    """The same event, if its task had been another."""
    if isinstance(event, StartEvent):
        return msgspec.structs.replace(event, metric_names=("mae", "r2"))
    if accuracy := getattr(event, "metrics", {}).get("accuracy"):
        return msgspec.structs.replace(event, metrics={"mae": 100 * (1 - accuracy), "r2": accuracy})
    return event


KINDS = {
    "job": (synthetic.JOB, synthetic.run_events, "metrics.csv", "round"),
    "gossip": (synthetic_gossip.JOB, synthetic_gossip.gossip_events, "epochs.csv", "time"),
    "split": (synthetic_split.JOB, synthetic_split.split_events, "epochs.csv", "epoch"),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def folder(kind, tmp_path):
    settings, events, *_ = KINDS[kind]
    with RunFolder.create(tmp_path, "run", settings) as made:
        for event in map(of_regression, events()):
            made.record(event)
    return RunFolder.open(made.path)


def test_they_are_columns_of_files(kind, folder):
    name = KINDS[kind][2]
    rows = list(csv.DictReader(io.StringIO((folder.path / name).read_text())))
    assert list(rows[0])[-3:] == ["loss", "mae", "r2"]
    known = [row for row in rows if row["mae"]]
    assert known
    assert all(float(row["mae"]) == pytest.approx(100 - 100 * float(row["r2"])) for row in known)
    table = folder.summary().tables[name.removesuffix(".csv")]
    assert (folder.path / name).read_text() == table.to_csv()


def test_they_are_figures_of_the_summary_and_of_the_last_lines(folder):
    summary = folder.summary()
    assert summary.metrics == {"mae": summary.mae, "r2": summary.r2}
    assert summary.mae == pytest.approx(100 - 100 * summary.r2)
    result = {"rounds": 10, "epochs": 6, "averaged": ["a"], "seconds": 9.0, "truancy_max": None}
    (line,) = folder.reporting.conclusion(result, summary)
    assert line.startswith(f"mae {summary.mae:.4g}, r2 {summary.r2:.4g} ")


def test_they_are_charts_and_a_tile_of_the_page(kind, folder):
    page = write_report(folder).read_text()
    content = json.loads(page.split('id="content">')[1].split("</script>")[0])["content"]
    titles = [section["title"] for section in content["sections"]]
    assert {"Mae", "R2"} <= set(titles)
    assert "ccuracy" not in "".join(titles)
    tile = content["sections"][0]["tiles"][0]
    assert tile["column"] == "mae"
    assert ", r2 0." in tile["note"]


def test_they_are_in_the_lines(folder):
    text = io.StringIO()
    printer = LinePrinter(Console(file=text, width=200), folder.reporting.progress())
    for event in folder.events():
        printer.feed(event)
    lines = text.getvalue().splitlines()
    shown = [line for line in lines if "  mae " in line and "  r2 0." in line]
    assert len(shown) >= 6
    assert "mae" in lines[-1] or lines[-1].startswith("ended: rounds done")
    assert "accuracy" not in text.getvalue()


def test_they_are_in_the_live_table():
    state = RunLiveTable()
    for event in map(of_regression, synthetic.run_events()):
        state.feed(event)
    text, drawn, _ = state.view(now=20.0, num_rows=5, bar_cells=10).results
    assert text.split("   ")[1:] == [f"mae {drawn[-1]:.4g}", f"r2 {1 - drawn[-1] / 100:.4g}"]


def test_jobs_of_a_pool_have_metrics_of_their_own():
    events, jobs = synthetic_pool.pool_events()
    jobs["mnist"] = list(map(of_regression, jobs["mnist"]))
    folder = RunFolder(Path(), "pool")
    summary = folder.reporting.summary(events, synthetic_pool.POOL, jobs)
    mnist, fashion, _ = summary.tables["jobs"].records()
    assert (mnist["r2"], mnist["accuracy"], fashion["r2"], fashion["accuracy"]) == (0.9, None, None, 0.9)
    titles = [section.title for section in folder.reporting.shown(summary.tables)]
    assert titles[2:6] == ["Mae", "R2", "Accuracy", "Loss"]


def test_a_task_without_metrics_has_its_loss(kind):
    settings, events, *_ = KINDS[kind]

    def without(event):
        if isinstance(event, StartEvent):
            return msgspec.structs.replace(event, metric_names=())
        return msgspec.structs.replace(event, metrics={}) if hasattr(event, "metrics") else event

    reporting = RunFolder(Path(), kind).reporting
    summary = reporting.summary(map(without, events()), settings)
    tiles, *sections = reporting.shown(summary.tables)
    assert (tiles.tiles[0].column, summary.metrics) == ("loss", {})
    assert any(section.title.startswith("Loss") for section in sections)


def test_a_figure_that_is_not_a_number_is_read_back_as_unknown():
    scores = Scores(0.5, {"mae": 43.2, "r2": float("nan")})
    measured = ConsensusMeasured(at=1.0, number=1, epoch=1, num_learners=2, distance=0.1, **fields_of(scores))
    assert from_line(to_line(measured)) == measured
    assert measured.scores == Scores(0.5, {"mae": 43.2})


def test_progress_is_flat_for_json():
    job = JobProgress(job="a", status="over", num_closed=2, rounds=2, num_learners=1, loss=0.5, metrics={"mae": 3.0})
    assert job.flat() == {
        "job": "a",
        "status": "over",
        "num_closed": 2,
        "rounds": 2,
        "num_learners": 1,
        "loss": 0.5,
        "reason": "",
        "mae": 3.0,
    }


@pytest.mark.parametrize("name", ["loss", "seconds", "", "two words", "a>=b", "x" * 65, "\x1b[2J"])
def test_names_that_no_metric_may_have(name):
    tables = [Table("rounds", columns("seconds seconds", "loss number"))]
    check_metric_names(("accuracy", "recall@5", "top-5.accuracy"), tables)
    with pytest.raises(ConfigError, match="^a metric of the task is called .*: give it another name"):
        check_metric_names(("accuracy", name), tables)
