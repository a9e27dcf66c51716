"""The folder of a pool keeps what happened between the jobs, who was paid, and a run folder per job."""

import csv
import json
import re
from pathlib import Path

import pytest

from paceline.errors import ConfigError, PacelineError
from paceline.monitor import PoolFolder, RunFolder
from paceline.monitor.pool_folder import LEDGER
from paceline.topologies.parallel.events import LearnerPaid
from tests.monitor.synthetic_pool import POOL, job_tables, pool_events

DOCS = Path(__file__).parents[2] / "docs/reference"


def ledger_of(folder):
    with (folder.path / "ledger.csv").open() as file:
        return list(csv.DictReader(file))


def test_what_is_recorded_is_read_back(make_pool):
    events, jobs = pool_events()
    folder = PoolFolder.open(make_pool().path)
    assert list(folder.events()) == events
    assert folder.pool == POOL
    assert {name: list(job.events()) for name, job in folder.jobs().items()} == jobs
    assert folder.jobs()["mnist"].job == job_tables("mnist")
    assert folder.versions["seed"] == 5


def test_files_of_a_new_folder(tmp_path):
    with PoolFolder.create(tmp_path / "runs", "shelf", POOL) as folder:
        job = folder.job("mnist", job_tables("mnist"))
        assert job.checkpoints.is_dir()
    names = sorted(path.name for path in folder.path.iterdir())
    assert names == ["events.jsonl", "jobs", "ledger.csv", "pool.json", "versions.json"]
    assert json.loads((folder.path / "pool.json").read_text()) == POOL
    assert job.path == folder.path / "jobs/mnist"
    assert folder.report == folder.path / "report.html"
    assert ledger_of(folder) == []


def test_every_payment_is_a_row_of_the_ledger(make_pool):
    folder = make_pool()
    paid = [event for event in folder.events() if isinstance(event, LearnerPaid)]
    rows = ledger_of(folder)
    assert [(row["job"], row["learner"], float(row["amount"])) for row in rows] == [
        (event.job, event.learner, event.amount) for event in paid
    ]
    assert rows[0] == {
        "at": "20.5",
        "job": "mnist",
        "round": "1",
        "learner": "guest",
        "num_shards": "8",
        "num_samples": "800",
        "shards": "8.0",
        "price": "0.8",
        "amount": "6.4",
    }


def test_every_column_of_the_ledger_is_told():
    table = (DOCS / "pool-folder.md").read_text().partition("## ledger.csv")[2]
    told = [name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    assert tuple(told) == LEDGER


def test_events_are_on_disk_at_once_and_jobs_too(tmp_path):
    events, jobs = pool_events()
    with PoolFolder.create(tmp_path, "shelf", POOL) as folder:
        job = folder.job("mnist", job_tables("mnist"))
        folder.record(events[0])
        job.record(jobs["mnist"][0])
        assert list(PoolFolder.open(folder.path).events()) == events[:1]
        assert list(PoolFolder.open(folder.path).jobs()["mnist"].events()) == jobs["mnist"][:1]


def test_a_job_is_an_ordinary_run_folder_and_closed_with_the_pool(make_pool, tmp_path):
    with PoolFolder.create(tmp_path, "open", POOL) as folder:
        job = folder.job("mnist", job_tables("mnist"))
        with pytest.raises(ConfigError, match="another process is recording this run"):
            RunFolder.open(job.path).reopen()
    with RunFolder.open(job.path) as again:
        again.reopen()
    with pytest.raises(AssertionError, match="for reading"):
        job.record(pool_events()[1]["mnist"][0])


def test_names_of_jobs_are_those_of_folders_and_differ(tmp_path):
    with PoolFolder.create(tmp_path, "shelf", POOL) as folder:
        folder.job("mnist", job_tables("mnist"))
        with pytest.raises(ConfigError, match="jobs/mnist exists and is not empty"):
            folder.job("mnist", job_tables("mnist"))
        for name in ("", "..", "a/b", "../../escape", "\0"):
            with pytest.raises(ConfigError, match="is not the name of a folder"):
                folder.job(name, job_tables(name))
    assert list(folder.jobs()) == ["mnist"]


def test_a_folder_with_files_is_not_taken(make_pool, tmp_path):
    make_pool()
    with pytest.raises(ConfigError, match="shelf exists and is not empty: give the pool another name$"):
        PoolFolder.create(tmp_path, "shelf", POOL)


def test_only_pool_folders_are_opened(make_pool, make_run, tmp_path):
    pool, run = make_pool(), make_run()
    assert (PoolFolder.is_at(pool.path), PoolFolder.is_at(run.path), PoolFolder.is_at(tmp_path / "no")) == (
        *(True, False, False),
    )
    with pytest.raises(ConfigError, match="digits is not a pool folder: it has no pool.json and events.jsonl"):
        PoolFolder.open(run.path)
    with pytest.raises(ConfigError, match="shelf is not a run folder: it has no job.json and events.jsonl"):
        RunFolder.open(pool.path)
    with pytest.raises(ConfigError, match="shel: no such folder; did you mean .*/shelf?"):
        PoolFolder.open(tmp_path / "shel")


def test_a_folder_that_was_opened_is_for_reading(make_pool):
    folder = PoolFolder.open(make_pool().path)
    with pytest.raises(AssertionError, match="for reading"):
        folder.job("more", job_tables("more"))
    assert "more" not in folder.jobs()


def test_a_full_disk_of_a_job_is_told_and_all_else_is_closed(tmp_path):
    events, jobs = pool_events()
    folder = PoolFolder.create(tmp_path, "shelf", POOL)
    broken, other = (folder.job(name, job_tables(name)) for name in ("mnist", "fashion"))
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
    assert list(PoolFolder.open(folder.path).events()) == events[:1]
    folder.close()
