"""A pool on loopback, in real time: orchestrator and learners are processes, and one of them is killed."""

import csv
import json
import subprocess
import sys
import time

import pytest

from paceline.cli import main
from paceline.report import RunFolder
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel.events import JobEnded, JobsAllocated, LearnerPaid, RoundClosed, UpdateAccepted

POOL = """\
[pool]
jobs = ["first.toml", "second.toml"]
min_learners = 5
total_budget = 2000
patience_seconds = 5
[allocation]
policy = "med"
budget = 100
"""
JOB = """\
[job]
rounds = {rounds}
deadline_seconds = 8
benchmark_shards = 2
local_epochs = {local_epochs}
[data]
name = "digits"
shard_size = 64
"""
STATES = "idle=0.6,training=0.3,downloading=0.1"


@pytest.fixture
def start(tmp_path):
    """Start a command of paceline in a process of its own; killed at the end of the test."""
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "paceline", *map(str, arguments)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def until_closed(path, num_rounds):
    """Wait until so many rounds of a job are closed; its file of events grows line by line."""
    for _ in range(1800):
        if path.exists() and path.read_bytes().count(b'"round_closed"') >= num_rounds:
            return
        time.sleep(0.1)
    raise AssertionError(f"{path}: no {num_rounds} rounds in three minutes")


def test_three_jobs_five_learners_one_killed_one_job_submitted(start, tmp_path, capsys):
    (tmp_path / "pool.toml").write_text(POOL)
    (tmp_path / "first.toml").write_text(JOB.format(rounds=6, local_epochs=2))
    (tmp_path / "second.toml").write_text(JOB.format(rounds=6, local_epochs=1))
    (tmp_path / "third.toml").write_text(JOB.format(rounds=2, local_epochs=1))
    serving = start("serve", "pool.toml", "--port", 0, "--token", "S3cret", "--folder", "run", "--json")
    url = json.loads(serving.stdout.readline())["url"]
    learners = [
        start("join", url, "--token", "S3cret", "--name", f"d{n}", "--price", 1 + 0.1 * n, "--emulate", "slowdown=20",
              *(("--states", STATES) if n < 2 else ()), "--json")
        for n in range(5)
    ]  # fmt: skip
    until_closed(tmp_path / "run/jobs/first/events.jsonl", 1)
    learners[4].kill()
    with pytest.raises(SystemExit) as exit:
        main(["submit", str(tmp_path / "third.toml"), "--to", url, "--token", "S3cret", "--wait", "--json"])
    assert exit.value.code == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["status"], told["num_closed"]) == ("third", "over", 2)
    out, err = serving.communicate(timeout=120)
    assert serving.returncode == 0, err
    result = json.loads(out.splitlines()[-1])
    assert {name: job["rounds"] for name, job in result["jobs"].items()} == {"first": 6, "second": 6, "third": 2}
    for learner in learners[:4]:
        assert learner.wait(timeout=30) == 0
    check(RunFolder.open(tmp_path / "run"), result)


def check(folder, result):
    """The ledger adds up to what was accepted, and no round cost more than its budget."""
    pool = [*folder.events()]
    lines = [event for event in pool if isinstance(event, LearnerPaid)]
    for name, job in folder.jobs().items():
        accepted = [event for event in job.events() if isinstance(event, UpdateAccepted)]
        closed = [event for event in job.events() if isinstance(event, RoundClosed)]
        of_job = [line for line in lines if line.job == name]
        assert sum(line.num_samples for line in of_job) == sum(event.num_samples for event in accepted)
        assert sum(line.num_samples for line in of_job) == sum(event.num_samples for event in closed) > 0
    assert result["spent"] == pytest.approx(sum(line.amount for line in lines))
    assert 0 < result["spent"] <= 2000
    assert all(event.cost <= 100 for event in pool if isinstance(event, JobsAllocated))
    with (folder.path / "ledger.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert sum(float(row["amount"]) for row in rows) == pytest.approx(result["spent"])
    assert any(isinstance(event, LearnerLeft) and event.learner == "d4" for event in pool)
    last = [event for event in pool if isinstance(event, JobsAllocated)][-1]
    assert "d4" not in last.placements
    assert {event.job for event in pool if isinstance(event, JobEnded)} == {"first", "second", "third"}
