"""Pools on loopback, in real time: who is killed, what is submitted and cancelled, and that the books are in order."""

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
from tests.topologies.parallel.runs import of

POOL = """\
[pool]
jobs = ["first.toml"]
min_learners = 3
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
[data]
name = "digits"
shard_size = 64
"""
TOKEN = ("--token", "S3cret")


@pytest.fixture
def start(tmp_path):
    """Start a command of paceline in a process of its own; killed at the end of the test."""
    processes = []

    def start(*arguments):
        command = [sys.executable, "-m", "paceline", *map(str, arguments), *TOKEN, "--json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        processes.append(subprocess.Popen(command, cwd=tmp_path, text=True, **pipes))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def until_a_round_is_closed(path):
    for _ in range(1800):
        if path.exists() and b'"round_closed"' in path.read_bytes():
            return
        time.sleep(0.1)
    raise AssertionError(f"{path}: no round in three minutes")


@pytest.mark.long
def test_a_learner_is_killed_and_a_job_is_submitted(start, tmp_path, capsys):
    (tmp_path / "pool.toml").write_text(POOL)
    (tmp_path / "first.toml").write_text(JOB.format(rounds=6))
    (tmp_path / "second.toml").write_text(JOB.format(rounds=2))
    serving = start("serve", "pool.toml", "--port", 0, "--folder", "run")
    told = json.loads(serving.stdout.readline())
    url, submitting = told["url"], ("--token", told["submit_token"])
    states = ("--states", "idle=0.6,training=0.3,downloading=0.1")
    rules = ("--price", 1.1, "--emulate", "slowdown=100")
    learners = [
        start("join", url, "--name", name, *rules, *more) for name, more in (("d0", states), ("d1", ()), ("d2", ()))
    ]
    until_a_round_is_closed(tmp_path / "run/jobs/first/events.jsonl")
    learners[2].kill()
    with pytest.raises(SystemExit) as exit:
        main(["submit", str(tmp_path / "second.toml"), "--to", url, *submitting, "--wait", "--json"])
    assert exit.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["job"], found["status"], found["num_closed"]) == ("second", "over", 2)
    out, err = serving.communicate(timeout=120)
    assert serving.returncode == 0, err
    result = json.loads(out.splitlines()[-1])
    assert {name: job["rounds"] for name, job in result["jobs"].items()} == {"first": 6, "second": 2}
    assert [learner.wait(timeout=30) for learner in learners[:2]] == [0, 0]

    folder = RunFolder.open(tmp_path / "run")
    events = [*folder.events()]
    for name, job in folder.jobs().items():
        paid = [line.num_samples for line in of(LearnerPaid, events) if line.job == name]
        assert sum(paid) == sum(event.num_samples for event in of(UpdateAccepted, job.events())) > 0
    with (folder.path / "ledger.csv").open() as file:
        assert sum(float(row["amount"]) for row in csv.DictReader(file)) == pytest.approx(result["spent"])
    assert 0 < result["spent"] <= 2000
    assert all(event.cost <= 100 for event in of(JobsAllocated, events))
    assert "d2" in [event.learner for event in of(LearnerLeft, events)]
    assert "d2" not in of(JobsAllocated, events)[-1].placements


@pytest.mark.long
def test_a_pool_that_is_killed_goes_on_with_the_same_learners(start, tmp_path, capsys):
    (tmp_path / "pool.toml").write_text(POOL.replace('["first.toml"]', '["first.toml", "endless.toml"]'))
    (tmp_path / "first.toml").write_text(JOB.format(rounds=6))
    (tmp_path / "endless.toml").write_text(JOB.format(rounds=100_000))
    serving = start("serve", "pool.toml", "--port", 0, "--folder", "run")
    told = json.loads(serving.stdout.readline())
    rules = ("--price", 1.1, "--emulate", "slowdown=60")
    learners = [start("join", told["url"], "--name", name, *rules) for name in ("d0", "d1", "d2")]
    until_a_round_is_closed(tmp_path / "run/jobs/first/events.jsonl")
    serving.kill()
    serving.communicate()
    folder = RunFolder.open(tmp_path / "run")
    num_before = {name: len(of(RoundClosed, job.events())) for name, job in folder.jobs().items()}

    command = [sys.executable, "-m", "paceline", "resume", "run", "--json"]
    resumed = subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert json.loads(resumed.stdout.readline()) == told  # learners find it by themselves
        with pytest.raises(SystemExit) as exit:
            main(["cancel", "endless", "--to", told["url"], "--token", told["submit_token"], "--json"])
        assert exit.value.code == 0
        assert json.loads(capsys.readouterr().out)["reason"] == "cancelled"
        out, err = resumed.communicate(timeout=120)
    finally:
        resumed.kill()
        resumed.communicate()
    assert resumed.returncode == 0, err
    assert [learner.wait(timeout=30) for learner in learners] == [0, 0, 0]
    events = list(folder.events())
    for name, job in folder.jobs().items():
        closed = of(RoundClosed, job.events())
        assert [event.round for event in closed] == list(range(1, len(closed) + 1))
        assert len(closed) >= num_before[name]
        paid = [line for line in of(LearnerPaid, events) if line.job == name]
        assert len({(line.round, line.learner) for line in paid}) == len(paid)
        assert sum(line.num_samples for line in paid) == sum(event.num_samples for event in closed)
    assert {event.job: event.reason for event in of(JobEnded, events)} == {
        "first": "rounds done",
        "endless": "cancelled",
    }
    spent = json.loads(out.splitlines()[-1])["spent"]
    assert spent == pytest.approx(sum(line.amount for line in of(LearnerPaid, events)))
    assert spent <= 2000
    back = {event.learner for event in of(LearnerPaid, events) if event.round > num_before[event.job]}
    assert back == {"d0", "d1", "d2"}
