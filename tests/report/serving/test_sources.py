"""The list of a folder, while runs come, go on and are damaged."""

import pytest

from paceline.errors import ConfigError
from paceline.report.folder import RunFolder
from paceline.report.serving.sources import FolderSource
from tests.report.synthetic import JOB, record, run_events


def test_runs_are_listed_as_they_stand(tmp_path):
    source = FolderSource(tmp_path)
    assert source.look(is_quick=False) == {"runs": []}
    record(tmp_path, "done", JOB, run_events())
    with RunFolder.create(tmp_path / "sweep", "cell", JOB) as folder:
        for event in run_events()[:60]:
            folder.record(event)
        listed = {run.name: run for run in source.look(is_quick=False)["runs"]}
        assert listed.keys() == {"done", "sweep/cell"}
        assert (listed["done"].state, listed["done"].ended, listed["done"].share_done) == ("ended", "rounds done", 1.0)
        assert listed["done"].metrics.keys() == {"accuracy"}
        assert listed["sweep/cell"].state == "running"
        assert 0 < listed["sweep/cell"].share_done < 1
        for event in run_events()[60:]:
            folder.record(event)
        again = {run.name: run for run in source.look(is_quick=False)["runs"]}
        assert again["done"] is listed["done"]  # it is not read again
        assert again["sweep/cell"].state == "ended"


def test_an_interrupted_run_and_a_damaged_one_do_not_spoil_the_list(tmp_path):
    record(tmp_path, "cut", JOB, run_events()[:60])
    damaged = record(tmp_path, "bad", JOB, run_events())
    damaged.events_file.write_bytes(b"nonsense\n")
    (tmp_path / "other").mkdir()
    listed = {run.name: run for run in FolderSource(tmp_path).look(is_quick=False)["runs"]}
    assert listed["cut"].state == "interrupted"
    assert "line 1 is not an event" in listed["bad"].error
    assert "other" not in listed


def test_only_what_is_listed_is_found(tmp_path):
    record(tmp_path / "runs", "a", JOB, run_events()[:9])
    record(tmp_path, "outside", JOB, run_events()[:9])
    source = FolderSource(tmp_path / "runs")
    assert source.find("a") == tmp_path / "runs" / "a"
    for name in ("../outside", "", ".", "/etc", str(tmp_path / "outside")):
        with pytest.raises(ConfigError, match="no run here is called"):
            source.find(name)
