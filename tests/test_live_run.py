"""A run over real HTTP in separate processes: devices die, come late, and the orchestrator itself is killed."""

import collections
import csv
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from paceline import VirtualDevice, VirtualFleet, load_job, train
from paceline.report import RunFolder
from paceline.topologies.parallel.events import RoundClosed, RoundOpened, RunStarted, ShardsTaken, UpdateAccepted

JOB = """
[job]
rounds = 8
deadline_seconds = 1.5
batch_size = 16
min_learners = 2
benchmark_shards = 2
[model]
name = "three-nn"
[data]
name = "digits"
shard_size = 16
"""
PATIENCE_SECONDS = 60


class Stage:
    """Starts `paceline` commands, and follows what the orchestrator records."""

    def __init__(self, folder):
        self.run = folder / "run"
        self._folder = folder
        self._processes = []
        (folder / "job.toml").write_text(JOB)

    def start(self, *arguments, **changes):
        process = subprocess.Popen(
            [sys.executable, "-m", "paceline", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self._folder,
            env={**os.environ, **changes},
        )
        self._processes.append(process)
        return process

    def serve(self, *arguments):
        """An orchestrator, and what it said of how to join."""
        return self._told("serve", *arguments, "--json")

    def resume(self):
        """The same orchestrator after it was killed."""
        return self._told("resume", self.run, "--json")

    def _told(self, *arguments):
        process = self.start(*arguments)
        return process, json.loads(process.stdout.readline())

    def join(self, told, name, *options):
        return self.start("join", told["url"], "--name", name, *options, PACELINE_TOKEN=told["token"])

    def until(self, is_reached):
        """Wait for something to be recorded."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not is_reached(recorded := self.recorded()):
            assert time.monotonic() < give_up, [type(event).__name__ for event in recorded[-20:]]
            time.sleep(0.05)

    def recorded(self):
        return list(RunFolder.open(self.run).events())

    def end(self):
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    yield stage
    stage.end()


def has_closed(number):
    return lambda recorded: any(isinstance(e, RoundClosed) and e.round == number for e in recorded)


def works_in_a_round_after(number, learner):
    def is_reached(recorded):
        opened = max((e.round for e in recorded if isinstance(e, RoundOpened)), default=0)
        of_round = [e for e in recorded if getattr(e, "round", 0) == opened]
        has_taken = any(isinstance(e, ShardsTaken) and e.learner == learner for e in of_round)
        has_delivered = any(isinstance(e, UpdateAccepted) and e.learner == learner for e in of_round)
        return opened > number and has_taken and not has_delivered and not has_closed(opened)(recorded)

    return is_reached


@pytest.mark.slow
def test_a_run_survives_all_that_happens_to_it(stage):
    serving, told = stage.serve("job.toml", "--folder", stage.run, "--port", 0, "--tls", "--token", "S3cret")
    assert told["url"].startswith("https://")
    assert told["url"].endswith(f"#{told['fingerprint']}")
    assert told["token"] == "S3cret"
    first = stage.join(told, "first")
    mortal = stage.join(told, "mortal", "--emulate", "slowdown=8")
    stage.until(works_in_a_round_after(1, "mortal"))
    mortal.send_signal(signal.SIGKILL)
    late = stage.join(told, "late", "--emulate", "slowdown=8")
    stage.until(works_in_a_round_after(4, "late"))
    figures = scraped(told)
    assert figures["paceline_metrics_round"] >= 4
    assert figures["paceline_metrics_late_total"] >= 1  # of the mortal
    assert figures["paceline_call_seconds_count"] > 0
    assert figures["paceline_connections"] >= 2
    assert figures["paceline_devices"] >= 2
    serving.send_signal(signal.SIGKILL)
    serving.wait()
    killed_after = max(e.round for e in stage.recorded() if isinstance(e, RoundClosed))

    resumed, told_again = stage.resume()
    assert told_again == told  # the same address, token and certificate: learners find it by themselves
    result = json.loads(resumed.communicate(timeout=PATIENCE_SECONDS)[0])
    assert resumed.returncode == 0
    assert [process.wait(timeout=PATIENCE_SECONDS) for process in (first, late)] == [0, 0]

    recorded = stage.recorded()
    closed = [event for event in recorded if isinstance(event, RoundClosed)]
    assert [event.round for event in closed] == list(range(1, 9))
    assert [event.at for event in closed] == sorted(event.at for event in closed)
    assert [event.first_round for event in recorded if isinstance(event, RunStarted)] == [1, killed_after + 1]
    assert any("mortal" in event.late for event in closed)
    of_late = [e.round for e in recorded if isinstance(e, UpdateAccepted) and e.learner == "late"]
    assert of_late
    assert min(of_late) > 1
    back = {e.learner for e in recorded if isinstance(e, UpdateAccepted) and e.round > killed_after}
    assert back == {"first", "late"}
    with open(stage.run / "metrics.csv") as file:
        assert [int(row["round"]) for row in csv.DictReader(file)] == list(range(1, 9))
    accuracies = {event.round: event.metrics["accuracy"] for event in closed}
    assert accuracies[killed_after + 1] > accuracies[killed_after] - 0.05  # it goes on from what was learned
    assert result["rounds"] == 8
    assert result["accuracy"] == pytest.approx(undisturbed_accuracy(stage.run), abs=0.05)


def scraped(told):
    """What Prometheus would read there, by name; the sum over all labels."""
    context = ssl._create_unverified_context()
    headers = {"Authorization": f"Bearer {told['token']}"}
    request = urllib.request.Request(f"{told['url'].partition('#')[0]}/metrics", headers=headers)
    with urllib.request.urlopen(request, context=context, timeout=PATIENCE_SECONDS) as reply:
        families = list(text_string_to_metric_families(reply.read().decode()))
    figures = collections.Counter()
    for sample in (sample for family in families for sample in family.samples):
        figures[sample.name] += sample.value
    return figures


def undisturbed_accuracy(run):
    """What the same job reaches on virtual time, where nothing happens to it."""
    job, speeds = load_job(run.with_name("job.toml")), {"first": 8000, "second": 1000}
    fleet = VirtualFleet([VirtualDevice(name=name, samples_per_second=speed) for name, speed in speeds.items()])
    undisturbed = train(job, fleet, folder=run.with_name("undisturbed"), progress=False)
    assert undisturbed.accuracy > 0.9
    return undisturbed.accuracy
