"""Federated jobs: data stays on the devices, and only parameters travel."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.averaging import AggregationSpec
from paceline.learning.datasets import DataSpec
from paceline.topologies.parallel.events import ShardsTaken
from tests.topologies.parallel.runs import closed, device, of, play, small_job

LOCAL = DataSpec(name="digits", shard_size=32, placement="local")
JOB = """\
[job]
rounds = 3
deadline_seconds = 1.5
local_epochs = 6
batch_size = 16
min_learners = 2
benchmark_shards = 2
[data]
name = "digits"
placement = "local"
[aggregation]
method = "fedprox"
mu = 0.01
"""
FLEET = [device("a", 100), device("b", 200), device("c", 400)]


@pytest.mark.parametrize("aggregation", [AggregationSpec(), AggregationSpec(method="fedprox", mu=0.1)])
def test_a_federated_fleet_learns(aggregation):
    job = small_job("dab", rounds=8, local_epochs=2, min_learners=3, data=LOCAL, aggregation=aggregation)
    outcome, events = play(job, FLEET)
    assert outcome.metrics["accuracy"] > 0.85
    assert events[0].num_shards == 0  # the orchestrator has none
    assert all(event.num_updates == 3 for event in closed(events))
    most = max(event.num_shards for event in of(ShardsTaken, events))
    assert most <= 15  # a third of 45: a device trains its own data only


def test_fedprox_holds_updates_near():
    moved = []
    for aggregation in (AggregationSpec(), AggregationSpec(method="fedprox", mu=10.0)):
        job = small_job("dab", rounds=1, local_epochs=4, min_learners=3, data=LOCAL, aggregation=aggregation)
        initial = play(job, FLEET, first_round=2)[0].state  # no round is left to play
        final = play(job, FLEET)[0].state
        moved.append(sum(float((final[name] - initial[name]).norm()) for name in final))
    assert moved[1] < 0.7 * moved[0]


def test_more_devices_than_samples_are_refused():
    with pytest.raises(ConfigError, match="1438 samples of digits are too few for 2000 devices"):
        play(small_job("dab", data=LOCAL), [device("many", count=2000)], is_time_only=True)


@pytest.mark.slow
def test_devices_join_with_data_of_their_own(tmp_path):
    dataset = datasets.load(DataSpec(name="digits"))
    for name, part in (("a", slice(0, 700)), ("b", slice(700, None))):
        np.savez(tmp_path / f"{name}.npz", x_train=dataset.x_train[part], y_train=dataset.y_train[part])
    (tmp_path / "job.toml").write_text(JOB)

    def start(*arguments):
        command = [sys.executable, "-m", "paceline", *map(str, arguments)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
        )

    with start("serve", "job.toml", "--port", 0, "--json") as serving:
        url = json.loads(serving.stdout.readline())["url"]
        with start("join", url) as without:
            assert without.communicate(timeout=60)[1].strip() == (
                "paceline: this job trains on data of the devices' own: pass --data FILE.npz"
            )
            assert without.returncode == 2
        learners = [start("join", url, "--name", name, "--data", f"{name}.npz") for name in ("a", "b")]
        result = json.loads(serving.communicate(timeout=120)[0])
        for learner in learners:
            learner.communicate(timeout=60)
    assert result["rounds"] == 3
    assert result["accuracy"] > 0.8
    assert [learner.returncode for learner in learners] == [0, 0]
