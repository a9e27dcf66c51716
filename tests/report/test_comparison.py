"""Several runs on one page: their figures in a table, a curve of each, and the settings in which they differ."""

import itertools

import msgspec
import pytest

from paceline.report.comparison import compare
from paceline.report.following import FollowedRun
from paceline.topologies.reporting.sections import Line
from tests.report.synthetic import JOB, FakeLearner, record, run_events


@pytest.fixture
def contents(tmp_path, make_any):
    """Contents of two runs of one job, of which one is slower, and of a gossip run."""

    def read(folder):
        run = FollowedRun(folder.path)
        run.read()
        return run.content()

    other = {**JOB, "job": {**JOB["job"], "seed": 8}}
    slow = run_events([FakeLearner(name="d1", shards_per_second=1)], rounds=4)
    folders = [record(tmp_path, "fast", JOB, run_events()), record(tmp_path, "slow", other, slow), make_any("gossip")]
    return [read(folder) for folder in folders]


def test_every_run_has_a_row_and_a_curve(contents):
    page = compare(contents)
    names = [content.name for content in contents]
    assert page.tables["runs"].values("run") == names
    (accuracy,) = (one for one in page.sections if isinstance(one, Line) and one.title == "Accuracy")
    assert accuracy.series == "run"
    shown = page.tables[accuracy.table].records()
    assert [row["accuracy"] for row in shown if row["run"] == "fast"] == contents[0].tables["rounds"].values("accuracy")
    assert sorted({row["run"] for row in shown}) == sorted(names)
    for section in page.sections:
        columns = {column.name for column in page.tables[section.table].columns}
        assert section.used_columns() <= columns


def test_runs_of_different_kinds_are_laid_over_each_other_by_time(contents, make_any):
    split = FollowedRun(make_any("split").path)
    split.read()
    page = compare([*contents, split.content()])
    (accuracy,) = (one for one in page.sections if isinstance(one, Line) and one.title == "Accuracy")
    assert (accuracy.x, accuracy.other_x) == ("time", ())
    shown = page.tables[accuracy.table].records()
    assert all(row["time"] is not None for row in shown)
    assert len({row["run"] for row in shown}) == 4
    groups = [section.group for section in page.sections]
    assert len(list(itertools.groupby(groups))) == len(set(groups))
    (alike,) = (one for one in compare(contents[:2]).sections if isinstance(one, Line) and one.title == "Accuracy")
    assert (alike.x, alike.other_x) == ("round", ("time", "trained"))


def test_a_run_without_an_end_is_not_called_finished(contents):
    cut = msgspec.structs.replace(contents[1], state="interrupted", ended=None)
    page = compare([contents[0], cut])
    assert (page.state, page.ended) == ("interrupted", None)
    running = compare([cut, msgspec.structs.replace(cut, state="running")])
    assert (running.state, running.ended) == ("running", None)
    finished = compare(contents[:1])
    assert (finished.state, finished.ended) == ("ended", "all of them")


def test_a_run_of_peers_is_compared_by_their_average(contents):
    page = compare(contents[2:])
    (accuracy,) = (one for one in page.sections if isinstance(one, Line) and one.title == "Accuracy")
    learning = contents[2].tables["learning"].records()
    average = [row["accuracy"] for row in learning if row["model"] == "average of all"]
    assert page.tables[accuracy.table].values("accuracy") == average


def test_settings_are_shown_where_they_differ(contents):
    differences = compare(contents[:2]).tables["differences"]
    assert differences.rows == [("job.seed", "7", "8")]
    assert [column.title for column in differences.columns] == ["key", "fast", "slow"]
