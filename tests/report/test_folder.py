"""A run folder keeps everything, and an interrupted run can go on from it."""

import csv
import json
import os
import signal

import pytest

from paceline.errors import ConfigError, PacelineError
from paceline.events import to_line
from paceline.report import RunFolder
from paceline.topologies.events import LearnerJoined
from paceline.topologies.parallel.events import RoundClosed, RoundOpened, RunEnded, UpdateRefused
from tests.report.synthetic import JOB, run_events
from tests.report.synthetic_gossip import JOB as GOSSIP
from tests.report.synthetic_gossip import gossip_events
from tests.report.synthetic_pool import POOL, job_tables, pool_events
from tests.report.synthetic_split import JOB as SPLIT
from tests.report.synthetic_split import split_events


def rows_of(folder, name="metrics.csv"):
    with (folder.path / name).open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(params=["job", "pool", "gossip", "split"])
def any_run(request, make_run, make_pool, make_gossip, make_split):
    """A run of each kind: its folder, its settings, its events, and the files that a new one has."""
    makers = {"job": make_run, "pool": make_pool, "gossip": make_gossip, "split": make_split}
    settings = {"job": JOB, "pool": POOL, "gossip": GOSSIP, "split": SPLIT}[request.param]
    recorded = {"job": run_events, "pool": lambda: pool_events()[0], "gossip": gossip_events, "split": split_events}
    tables = {"job": ["metrics"], "pool": ["ledger"], "gossip": ["epochs"], "split": ["epochs", "nodes"]}[request.param]
    files = [f"{request.param}.json", "versions.json", "events.jsonl", *(f"{name}.csv" for name in tables)]
    return makers[request.param](), settings, recorded[request.param](), files


def test_what_is_recorded_is_read_back(any_run):
    folder, settings, events, files = any_run
    again = RunFolder.open(folder.path)
    assert list(again.events()) == events
    assert again.settings == settings
    assert again.versions["seed"] == next(iter(settings.values()))["seed"]
    subfolder = "jobs" if "pool.json" in files else "checkpoints"
    assert sorted(path.name for path in folder.path.iterdir()) == sorted([*files, subfolder])
    assert json.loads((folder.path / files[0]).read_text()) == settings
    assert folder.checkpoints == folder.path / subfolder
    assert folder.report == folder.path / "report.html"


def test_recorded_tables_are_those_of_the_summary(any_run):
    folder, *_ = any_run
    tables = folder.summary().tables
    for recorded in folder.reporting.recorded:
        table = tables[recorded.name]
        assert (folder.path / recorded.file).read_text() == table.to_csv()
        assert table.rows


def test_a_folder_with_files_is_not_taken(any_run, tmp_path):
    folder, settings, *_ = any_run
    with pytest.raises(
        ConfigError, match=f"{folder.path.name} exists and is not empty: give the {folder.reporting.kind} an"
    ):
        RunFolder.create(folder.path.parent, folder.path.name, settings)


def test_a_job_of_no_known_kind(tmp_path):
    with pytest.raises(ConfigError, match="a job has one of the tables job, pool, gossip, split; this has lunch"):
        RunFolder.create(tmp_path, "run", {"lunch": {}})


def test_every_event_is_on_disk_at_once(tmp_path):
    with RunFolder.create(tmp_path, "one", JOB) as folder:
        for number, event in enumerate(run_events(rounds=2), 1):
            folder.record(event)
            assert len(list(RunFolder.open(folder.path).events())) == number


def test_the_row_of_a_closed_round(make_run):
    opened = RoundOpened(at=1, round=1, deadline_seconds=2.0, num_learners=2)
    counts = {"num_learners": 2, "num_updates": 1, "num_samples": 3, "num_shards": 2, "late": ("pi",)}
    work = {"fulfilment": 0.75, "is_satisfied": False, "occupancy": 0.9, "accuracy": 0.5}
    closed = RoundClosed(at=2, round=1, seconds=1, truancy=-0.5, **counts, **work)
    (row,) = rows_of(make_run([opened, closed]))
    known = {"round": "1", "deadline_seconds": "2.0", "late": "1", "samples": "3", "fulfilment": "0.75", "loss": ""}
    assert row == {**row, **known, "drop_rate": "0.25", "satisfied": "0", "occupancy": "0.9", "accuracy": "0.5"}


def test_where_no_folder_can_be(tmp_path):
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
    with pytest.raises(
        ConfigError, match="is not a run folder: it has no events.jsonl with one of job.json, pool.json"
    ):
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


def last_round(kept):
    return max((event.round for event in kept if isinstance(event, RoundClosed)), default=0)


def test_reopened_wherever_it_was_cut(make_run):
    """Whatever byte the process died at, the rest is whole rounds, and metrics agree."""
    folder = make_run(run_events(rounds=3))
    whole = {path: path.read_bytes() for path in (folder.path / "events.jsonl", folder.path / "metrics.csv")}
    seen = set()
    for num_bytes in range(0, len(whole[folder.path / "events.jsonl"]), 211):
        for path, content in whole.items():
            path.write_bytes(content)
        kept = cut_at(folder, num_bytes).reopen()
        folder.close()
        assert list(folder.events()) == kept
        opened = [event.round for event in kept if isinstance(event, RoundOpened)]
        closed = [event.round for event in kept if isinstance(event, RoundClosed)]
        assert opened == closed == list(range(1, last_round(kept) + 1))
        assert [int(row["round"]) for row in rows_of(folder)] == closed
        seen.add(last_round(kept))
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
    assert folder.reopen() == [*first, late]
    assert list(folder.events()) == [*first, late]
    folder.close()


def test_recording_goes_on_after_reopen(make_run):
    events = run_events()
    (last,) = (i for i, event in enumerate(events) if isinstance(event, RoundClosed) and event.round == 4)
    folder = make_run(events[: last + 5])
    with RunFolder.open(folder.path) as again:
        assert last_round(again.reopen()) == 4
        for event in events[last + 1 :]:
            again.record(event)
    assert list(again.events()) == events
    assert [int(row["round"]) for row in rows_of(again)] == list(range(1, 11))


RECORDING = """
import sys
from pathlib import Path
from paceline.topologies.parallel.events import RoundClosed
from paceline.report import RunFolder
sys.path.insert(0, sys.argv[2])
from tests.report.synthetic import JOB, run_events
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
    kept = folder.reopen()
    folder.close()
    assert last_round(kept) >= 3
    assert len(rows_of(folder)) == last_round(kept)


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


def test_the_jobs_of_a_pool_are_ordinary_run_folders(make_pool, tmp_path):
    _, jobs = pool_events()
    folder = RunFolder.open(make_pool().path)
    assert {name: list(job.events()) for name, job in folder.jobs().items()} == jobs
    assert folder.jobs()["mnist"].settings == job_tables("mnist")
    with RunFolder.create(tmp_path, "open", POOL) as folder:
        job = folder.create_job("mnist", job_tables("mnist"))
        job.record(jobs["mnist"][0])
        assert list(RunFolder.open(folder.path).jobs()["mnist"].events()) == jobs["mnist"][:1]
        with pytest.raises(ConfigError, match="another process is recording this run"):
            RunFolder.open(job.path).reopen()
    with RunFolder.open(job.path) as again:
        again.reopen()
    with pytest.raises(AssertionError, match="for reading"):
        job.record(jobs["mnist"][0])


def test_names_of_jobs_are_those_of_folders_and_differ(tmp_path):
    with RunFolder.create(tmp_path, "shelf", POOL) as folder:
        folder.create_job("mnist", job_tables("mnist"))
        with pytest.raises(ConfigError, match="jobs/mnist exists and is not empty"):
            folder.create_job("mnist", job_tables("mnist"))
        for name in ("", "..", "a/b", "../../escape", "\0"):
            with pytest.raises(ConfigError, match="is not the name of a folder"):
                folder.create_job(name, job_tables(name))
    assert list(folder.jobs()) == ["mnist"]
    with pytest.raises(AssertionError, match="for reading"):
        RunFolder.open(folder.path).create_job("more", job_tables("more"))


def test_a_full_disk_of_a_job_is_reported_and_all_else_is_closed(tmp_path):
    events, jobs = pool_events()
    folder = RunFolder.create(tmp_path, "shelf", POOL)
    broken, other = (folder.create_job(name, job_tables(name)) for name in ("mnist", "fashion"))
    (broken.path / "events.jsonl").unlink()
    (broken.path / "events.jsonl").symlink_to("/dev/full")
    broken._recorder.close()
    broken._start_recording()
    broken.record(jobs["mnist"][0])
    folder.record(events[0])
    with pytest.raises(PacelineError, match=r"mnist/events.jsonl is not complete: .*No space left on device"):
        folder.close()
    with RunFolder.open(other.path) as again:
        again.reopen()
    assert list(RunFolder.open(folder.path).events()) == events[:1]
    folder.close()
