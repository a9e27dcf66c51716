"""A run folder keeps everything, and an interrupted run can go on from it."""

import csv
import json
import os
import signal

import pytest

from paceline.errors import ConfigError, PacelineError
from paceline.events import to_line
from paceline.monitor import Resumption, RunFolder
from paceline.topologies.events import LearnerJoined
from paceline.topologies.parallel.events import RoundClosed, RoundOpened, RunEnded, UpdateRefused
from tests.monitor.synthetic import JOB, run_events


def metrics_of(folder):
    with (folder.path / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_what_is_recorded_is_read_back(make_run):
    events = run_events()
    folder = make_run(events)
    assert list(folder.events()) == events
    assert list(RunFolder.open(folder.path).events()) == events
    assert folder.job == JOB


def test_files_of_a_new_folder(tmp_path):
    with RunFolder.create(tmp_path / "runs", "one", JOB) as folder:
        names = sorted(path.name for path in folder.path.iterdir())
    assert names == ["checkpoints", "events.jsonl", "job.json", "metrics.csv", "versions.json"]
    assert json.loads((folder.path / "job.json").read_text()) == JOB
    assert folder.versions["seed"] == 7
    assert folder.checkpoints == tmp_path / "runs/one/checkpoints"
    assert folder.report == tmp_path / "runs/one/report.html"
    assert metrics_of(folder) == []


def test_every_event_is_on_disk_at_once(tmp_path):
    with RunFolder.create(tmp_path, "one", JOB) as folder:
        for number, event in enumerate(run_events(rounds=2), 1):
            folder.record(event)
            assert len(list(RunFolder.open(folder.path).events())) == number


def test_metrics_have_a_row_per_closed_round(make_run):
    events = run_events(rounds=7, deadline_seconds=2.0)
    rows = metrics_of(make_run(events))
    closed = [event for event in events if isinstance(event, RoundClosed)]
    assert [int(row["round"]) for row in rows] == list(range(1, 8))
    assert [float(row["accuracy"]) for row in rows] == [event.accuracy for event in closed]
    assert {row["deadline_seconds"] for row in rows} == {"2.0"}
    assert [int(row["late"]) for row in rows] == [len(event.late) for event in closed]
    assert [int(row["samples"]) for row in rows] == [event.num_samples for event in closed]


def test_what_is_not_known_is_empty_in_metrics(make_run):
    opened = RoundOpened(at=1, round=1, deadline_seconds=1, num_learners=0)
    closed = RoundClosed(
        at=2, round=1, seconds=1, truancy=0, num_learners=0, num_updates=0, num_samples=0, num_shards=0
    )
    (row,) = metrics_of(make_run([opened, closed]))
    assert (row["loss"], row["accuracy"]) == ("", "")


def test_how_much_of_the_work_was_done_is_in_metrics(make_run):
    opened = RoundOpened(at=1, round=1, deadline_seconds=1, num_learners=2)
    counts = {"num_learners": 2, "num_updates": 2, "num_samples": 3, "num_shards": 2}
    work = {"fulfilment": 0.75, "is_satisfied": False, "occupancy": 0.9}
    closed = RoundClosed(at=2, round=1, seconds=1, truancy=0, **counts, **work)
    (row,) = metrics_of(make_run([opened, closed]))
    assert [row[name] for name in ("fulfilment", "drop_rate", "satisfied", "occupancy")] == ["0.75", "0.25", "0", "0.9"]


def test_a_folder_with_files_is_not_taken(make_run, tmp_path):
    make_run()
    with pytest.raises(ConfigError, match="digits exists and is not empty: give the run another name, or resume it"):
        RunFolder.create(tmp_path, "digits", JOB)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file: a run cannot be kept there: File exists"):
        RunFolder.create(tmp_path, "file", JOB)
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path, "empty", JOB).close()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0b"])
def test_a_name_is_that_of_one_folder(name, tmp_path):
    with pytest.raises(ConfigError, match="is not the name of a folder"):
        RunFolder.create(tmp_path, name, JOB)


def test_only_run_folders_are_opened(make_run, tmp_path):
    make_run()
    with pytest.raises(ConfigError, match="digit: no such folder; did you mean .*/digits?"):
        RunFolder.open(tmp_path / "digit")
    with pytest.raises(ConfigError, match="is not a run folder: it has no job.json and events.jsonl"):
        RunFolder.open(tmp_path)


def test_a_line_that_is_no_event_is_told_with_its_number(make_run):
    folder = make_run()
    lines = (folder.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder.path / "events.jsonl").write_bytes(b"".join([*lines[:2], b'{"event":"lunch","at":1}\n', *lines[2:]]))
    with pytest.raises(ConfigError, match="events.jsonl, line 3 is not an event: .*lunch"):
        list(folder.events())


def cut_at(folder, num_bytes):
    (folder.path / "events.jsonl").write_bytes((folder.path / "events.jsonl").read_bytes()[:num_bytes])
    return folder


def test_a_cut_last_line_is_left_out(make_run):
    events = run_events()
    folder = make_run(events)
    size = sum(len(to_line(event)) for event in events)
    assert list(cut_at(folder, size - 1).events()) == events[:-1]


def test_reopened_wherever_it_was_cut(make_run):
    """Whatever byte the process died at, the rest is whole rounds, and metrics agree."""
    folder = make_run(run_events(rounds=3))
    whole = {path: path.read_bytes() for path in (folder.path / "events.jsonl", folder.path / "metrics.csv")}
    seen = set()
    for num_bytes in range(0, len(whole[folder.path / "events.jsonl"]), 211):
        for path, content in whole.items():
            path.write_bytes(content)
        expected = cut_at(folder, num_bytes).resumption()
        resumption = folder.reopen()
        assert resumption == expected
        folder.close()
        kept = list(folder.events())
        opened = [event.round for event in kept if isinstance(event, RoundOpened)]
        closed = [event.round for event in kept if isinstance(event, RoundClosed)]
        assert opened == closed == list(range(1, resumption.round + 1))
        assert [int(row["round"]) for row in metrics_of(folder)] == closed
        assert resumption.at == max((event.at for event in kept), default=0.0)
        seen.add(resumption.round)
    assert seen == {0, 1, 2, 3}


def test_reopen_keeps_what_came_late_to_a_closed_round_and_drops_the_open_one(make_run):
    closed, *_ = (event for event in run_events() if isinstance(event, RoundClosed))
    first = [event for event in run_events() if event.at <= closed.at]
    late = UpdateRefused(at=9.0, round=1, learner="pi-4", reason="late", seconds=1.2, is_late=True)
    after = [
        RoundOpened(at=8.0, round=2, deadline_seconds=1.0, num_learners=4),
        LearnerJoined(at=8.5, learner="new"),
        late,
        UpdateRefused(at=9.1, round=2, learner="pi-4", reason="rubbish", seconds=0.9),
        RunEnded(at=9.5, reason="stopped", rounds=1),
    ]
    folder = make_run([*first, *after])
    assert folder.reopen() == Resumption(at=9.0, round=1)
    assert list(folder.events()) == [*first, late]
    folder.close()


def test_asking_where_it_would_go_on_changes_nothing(make_run):
    events = run_events()
    folder = make_run(events)
    assert folder.resumption() == Resumption(at=events[-2].at, round=10)
    assert list(folder.events()) == events


def test_recording_goes_on_after_reopen(make_run):
    events = run_events()
    (last,) = (i for i, event in enumerate(events) if isinstance(event, RoundClosed) and event.round == 4)
    folder = make_run(events[: last + 5])
    with RunFolder.open(folder.path) as again:
        assert again.reopen().round == 4
        for event in events[last + 1 :]:
            again.record(event)
    assert list(again.events()) == events
    assert [int(row["round"]) for row in metrics_of(again)] == list(range(1, 11))


def test_metrics_lost_before_the_kill_come_back(make_run):
    folder = make_run()
    whole = (folder.path / "metrics.csv").read_bytes()
    (folder.path / "metrics.csv").write_bytes(whole[:-20])
    folder.reopen()
    folder.close()
    assert (folder.path / "metrics.csv").read_bytes() == whole


RECORDING = """
import sys
from pathlib import Path
from paceline.topologies.parallel.events import RoundClosed
from paceline.monitor import RunFolder
sys.path.insert(0, sys.argv[2])
from tests.monitor.synthetic import JOB, run_events
folder = RunFolder.create(Path(sys.argv[1]), "killed", JOB)
for event in run_events(rounds=5000):
    folder.record(event)
    if isinstance(event, RoundClosed) and event.round == 3:
        print("three", flush=True)
"""


def test_killed_in_mid_recording(spawn, tmp_path, request):
    process = spawn(RECORDING, tmp_path, request.config.rootpath)
    assert process.stdout.readline() == "three\n"
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL
    folder = RunFolder.open(tmp_path / "killed")
    resumption = folder.reopen()
    folder.close()
    assert resumption.round >= 3
    assert len(metrics_of(folder)) == resumption.round


def test_a_full_disk_does_not_stop_the_run_and_is_told_at_the_end(make_run, tmp_path):
    folder = RunFolder.create(tmp_path, "full", JOB)
    (folder.path / "events.jsonl").unlink()
    (folder.path / "events.jsonl").symlink_to("/dev/full")
    folder._recorder.close()
    folder._start_recording()
    for event in run_events(rounds=1):
        folder.record(event)
    with pytest.raises(PacelineError, match=r"events.jsonl is not complete: .*No space left on device"):
        folder.close()


def test_leaving_by_an_error_tells_that_error(tmp_path):
    with pytest.raises(KeyError, match="why"), RunFolder.create(tmp_path, "one", JOB):
        raise KeyError("why")


def test_two_cannot_record_the_same_run(tmp_path):
    with (
        RunFolder.create(tmp_path, "run", {"job": {"seed": 0}}) as first,
        pytest.raises(ConfigError, match="another process is recording this run"),
    ):
        RunFolder.open(first.path).reopen()
    with RunFolder.open(first.path) as second:
        second.reopen()
