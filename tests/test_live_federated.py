"""A federated run over real HTTP: two devices join with data of their own, which stays where it is."""

import json
import re

import numpy as np
import pytest

from paceline import load
from paceline.learning import datasets
from paceline.learning.datasets import DataSpec
from paceline.report import RunFolder
from paceline.topologies.parallel.events import RoundClosed, RunStarted, ShardsTaken
from tests.learning.small_data import arrays_of
from tests.test_live_run import PATIENCE_SECONDS, Stage

JOB = """
[job]
rounds = 6
deadline_seconds = 0.6
overtime = 20
local_epochs = 2
batch_size = 16
min_learners = 2
benchmark_shards = 2
[data]
name = "digits"
shard_size = 25
placement = "local"
"""
HAS = {"clinic-a": 721, "clinic-b": 717}


@pytest.fixture
def stage(tmp_path):
    digits = datasets.load(DataSpec(name="digits"))
    y = digits.train.labels()
    for name, is_mine in {"clinic-a": y < 5, "clinic-b": y >= 5}.items():
        np.savez(tmp_path / f"{name}.npz", **arrays_of(digits, np.flatnonzero(is_mine), ["train"]))
    stage = Stage(tmp_path)
    yield stage
    stage.end()


@pytest.mark.long
@pytest.mark.parametrize("policy", ["adaptive-dab", "csa"])
def test_devices_train_together_on_data_of_their_own(stage, tmp_path, policy):
    (tmp_path / "job.toml").write_text(f'{JOB}[allocation]\npolicy = "{policy}"\n')
    serving, told = stage.serve("job.toml", "--folder", stage.run, "--port", 0, "--token", "S3cret")
    devices = [stage.join(told, name, "--data", f"{name}.npz") for name in HAS]
    result = json.loads(serving.communicate(timeout=2 * PATIENCE_SECONDS)[0])
    printed = [device.communicate(timeout=2 * PATIENCE_SECONDS)[0] for device in devices]

    assert [serving.returncode, *(device.returncode for device in devices)] == [0, 0, 0]
    recorded = list(RunFolder.open(stage.run).events())
    assert [event.num_shards for event in recorded if isinstance(event, RunStarted)] == [0]  # none is served
    closed = [event for event in recorded if isinstance(event, RoundClosed)]
    assert [(event.round, event.num_updates) for event in closed] == [(number, 2) for number in range(1, 7)]
    taken = {event.learner: event.num_shards for event in recorded if isinstance(event, ShardsTaken)}
    assert all(1 <= taken[name] <= -(-HAS[name] // 25) for name in HAS)
    for name, lines in zip(HAS, printed, strict=True):
        assert re.search(rf"- its name, {name}, its public key, ed25519:\S+, and the version of Paceline", lines)
        assert "that it trains; not the data" in lines
        assert "- how many shards of its own data it has" in lines
    assert result["accuracy"] > 0.6  # each alone has seen half of the classes
    assert load(stage.run) is not None
