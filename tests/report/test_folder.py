"""A run folder keeps everything, and an interrupted run can go on from it."""

import csv
import errno
import json
import os
import signal
import stat

import pytest

from paceline import files
from paceline.errors import ConfigError, DiskError
from paceline.report import RunFolder, write_report
from paceline.testing.disks import FaultyDisk
from paceline.topologies.events import LearnerJoined
from paceline.topologies.parallel.events import RoundClosed, RoundOpened, RunEnded, RunStarted, UpdateRefused
from tests.report import synthetic_gossip, synthetic_split
from tests.report.synthetic import JOB, record, run_events
from tests.report.synthetic_pool import POOL, job_tables, pool_events


def rows_of(folder, name="metrics.csv"):
    with (folder.path / name).open() as file:
        return list(csv.DictReader(file))


KINDS = {
    "job": (JOB, run_events, ["metrics"]),
    "pool": (POOL, lambda: pool_events()[0], ["ledger"]),
    "gossip": (synthetic_gossip.JOB, synthetic_gossip.gossip_events, ["epochs"]),
    "split": (synthetic_split.JOB, synthetic_split.split_events, ["epochs", "nodes"]),
}
"""Of each kind of run: its settings, its events, and the tables that are recorded."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_recorded_is_read_back(kind, make_any):
    folder, (settings, events, tables) = make_any(kind), KINDS[kind]
    again = RunFolder.open(folder.path)
    assert list(again.events()) == events()
    assert again.settings == settings == json.loads((folder.path / f"{kind}.json").read_text())
    assert again.versions["seed"] == next(iter(settings.values()))["seed"]
    subfolder = "jobs" if kind == "pool" else "checkpoints"
    files = [f"{kind}.json", "versions.json", "events.jsonl", *(f"{name}.csv" for name in tables), subfolder]
    assert sorted(path.name for path in folder.path.iterdir()) == sorted(files)
    for recorded in folder.reporting.recorded:
        table = folder.summary().tables[recorded.name]
        assert (folder.path / recorded.file).read_text() == table.to_csv()
        assert table.rows
    with pytest.raises(ConfigError, match=f"exists and is not empty: give the {folder.reporting.kind} an"):
        RunFolder.create(folder.path.parent, folder.path.name, settings)


def test_the_row_of_a_closed_round(make_run):
    opened = RoundOpened(at=1, round=1, deadline_seconds=2.0, num_learners=2)
    counts = {"num_learners": 2, "num_updates": 1, "num_samples": 3, "num_shards": 2, "late": ("pi",)}
    work = {"fulfilment": 0.75, "is_satisfied": False, "occupancy": 0.9}
    closed = RoundClosed(at=2, round=1, seconds=1, truancy=-0.5, metrics={"mae": 43.2}, **counts, **work)
    facts = {"job": JOB, "clock": "live", "first_round": 1, "num_parameters": 1, "num_shards": 1, "paceline": "0"}
    begun = RunStarted(at=0, **facts, metric_names=("mae", "macro_f1"))
    (row,) = rows_of(make_run([begun, opened, closed]))
    known = {"round": "1", "deadline_seconds": "2.0", "late": "1", "samples": "3", "fulfilment": "0.75", "loss": ""}
    assert row == {**row, **known, "drop_rate": "0.25", "satisfied": "0", "occupancy": "0.9"}
    assert list(row)[-3:] == ["loss", "mae", "macro_f1"]  # the columns that a task's metrics have
    assert (row["mae"], row["macro_f1"]) == ("43.2", "")


def test_where_no_folder_can_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file: a run cannot be kept there: File exists"):
        RunFolder.create(tmp_path, "file", JOB)
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path, "empty", JOB).close()
    for name in ("", "..", "a/b", "a\0b"):
        with pytest.raises(ConfigError, match="is not the name of a folder"):
            RunFolder.create(tmp_path, name, JOB)
    with pytest.raises(ConfigError, match="no table says what kind of job this is; allowed: job, pool, gossip, split"):
        RunFolder.create(tmp_path, "run", {"lunch": {}})


def test_only_run_folders_are_opened_and_lines_that_are_no_events_are_reported(make_run, tmp_path):
    folder = make_run()
    with pytest.raises(ConfigError, match="digit: no such folder; did you mean .*/digits?"):
        RunFolder.open(tmp_path / "digit")
    with pytest.raises(ConfigError, match="is not a run folder: it has no events.jsonl with one of job.json, pool"):
        RunFolder.open(tmp_path)
    lines = (folder.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder.path / "events.jsonl").write_bytes(b"".join([*lines[:2], b'{"event":"lunch","at":1}\n', *lines[2:]]))
    with pytest.raises(ConfigError, match="events.jsonl, line 3 is not an event: .*lunch"):
        list(folder.events())


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_else_can_look_into_a_run_or_a_pool(umask, tmp_path):
    before = os.umask(umask)
    try:
        with RunFolder.create(tmp_path / "runs", "shelf", POOL) as folder:
            folder.open_job("mnist", job_tables("mnist"))
        write_report(record(tmp_path / "runs", "digits", JOB, run_events()))
        with RunFolder.open(tmp_path / "runs/digits") as again:
            again.reopen()
    finally:
        os.umask(before)
    made = list((tmp_path / "runs").rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "runs", *made) if path.is_dir()} == {0o700}
    assert len(made) > 10


def test_lines_have_checksums(make_run):
    folder = make_run()
    lines = folder.path / "events.jsonl"
    whole = lines.read_bytes()
    for number, line in enumerate(whole.splitlines(keepends=True)[:20], 1):
        at = len(line) // 2
        damaged = line[:at] + bytes((line[at] ^ 1,)) + line[at + 1 :]
        lines.write_bytes(whole.replace(line, damaged, 1))
        with pytest.raises(ConfigError, match=f"events.jsonl, line {number} is not an event: its checksum is another"):
            list(folder.events())
        assert folder.whole_events()[1] == f"events.jsonl: a line is damaged, line {number}"


def last_round(kept):
    return max((event.round for event in kept if isinstance(event, RoundClosed)), default=0)


def test_reopened_wherever_it_was_cut(make_run):
    """Whatever byte the process died at, whole lines can be read, the rest is whole rounds, and metrics agree."""
    events = run_events(rounds=3)
    folder = make_run(events)
    whole = {path: path.read_bytes() for path in (folder.path / "events.jsonl", folder.path / "metrics.csv")}
    seen = set()
    size = len(whole[folder.path / "events.jsonl"])
    for num_bytes in [*range(0, size, 211), size]:
        for path, content in whole.items():
            path.write_bytes(content)
        left = whole[folder.path / "events.jsonl"][:num_bytes]
        (folder.path / "events.jsonl").write_bytes(left)
        assert list(folder.events()) == events[: left.count(b"\n")]
        kept = folder.reopen()
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
        RunEnded(at=9.5, reason="rounds done", rounds=1),
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
    assert len(rows_of(folder)) == last_round(kept) >= 3


def test_leaving_by_an_error_raises_that_error(tmp_path):
    with pytest.raises(KeyError, match="why"), RunFolder.create(tmp_path, "one", JOB):
        raise KeyError("why")


def test_the_jobs_of_a_pool_are_ordinary_run_folders_and_one_process_records_each(make_any, tmp_path):
    _, jobs = pool_events()
    folder = RunFolder.open(make_any("pool").path)
    assert {name: list(job.events()) for name, job in folder.jobs().items()} == jobs
    assert folder.jobs()["mnist"].settings == job_tables("mnist")
    with RunFolder.create(tmp_path, "open", POOL) as folder:
        job = folder.open_job("mnist", job_tables("mnist"))
        job.record(jobs["mnist"][0])
        assert list(RunFolder.open(folder.path).jobs()["mnist"].events()) == jobs["mnist"][:1]
        for path in (folder.path, job.path):
            with pytest.raises(ConfigError, match="another process is recording this"):
                RunFolder.open(path).reopen()
        with pytest.raises(ConfigError, match="jobs/mnist exists and is not empty"):
            folder.open_job("mnist", job_tables("mnist"))
        with pytest.raises(ConfigError, match="is not the name of a folder"):
            folder.open_job("../../escape", job_tables("escape"))
    with RunFolder.open(job.path) as again:
        again.reopen()
    with pytest.raises(AssertionError, match="for reading"):
        job.record(jobs["mnist"][0])


def test_a_full_disk_of_a_job_is_reported_and_all_else_is_closed(tmp_path):
    events, jobs = pool_events()
    folder = RunFolder.create(tmp_path, "shelf", POOL)
    broken, other = (folder.open_job(name, job_tables(name)) for name in ("mnist", "fashion"))
    with files.written_to(FaultyDisk({"append": errno.ENOSPC})):
        broken.record(jobs["mnist"][0])
    folder.record(events[0])
    with (
        files.written_to(FaultyDisk({"append": errno.ENOSPC})),
        pytest.raises(
            DiskError,
            match=r"the record is not complete: .*mnist/events.jsonl cannot be written: .*No space left on device",
        ),
    ):
        folder.close()
    with RunFolder.open(other.path) as again:
        again.reopen()
    assert list(RunFolder.open(folder.path).events()) == events[:1]
    folder.close()
