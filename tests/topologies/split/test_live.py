"""Five sources and a trunk on loopback, each a process of its own, learn what one process with the same model would."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from paceline import config
from paceline.learning import checkpoints
from paceline.monitor import SplitFolder
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split import make_plan
from paceline.topologies.split.events import SplitEpochEnded
from tests.topologies.split.runs import digits, farthest, in_one_process

NUM_SOURCES = 5
NUM_STEPS = 20
JOB = f"""\
[split]
cut = "f1"
epochs = 2
batch_size = 16
sources = {NUM_SOURCES}
seed = 7
[model]
name = "leaf-cnn"
[optimizer]
name = "Adam"
lr = 0.001
[data]
path = "digits.npz"
"""  # with the views of the paper


@pytest.fixture
def paceline(tmp_path):
    """Start a command in a process of its own; killed at the end of the test."""
    processes = []

    def start(*arguments):
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "paceline", *arguments],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def end(process):
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def one_thread():
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.mark.slow
def test_five_sources_and_a_trunk_equal_one_process(paceline, tmp_path, one_thread):
    data = digits()
    few = {name: getattr(data, name)[:160] for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(tmp_path / "digits.npz", **few)
    (tmp_path / "job.toml").write_text(JOB)
    trunk = paceline("split", "job.toml", "--port", "0", "--token", "S3cret", "--folder", "run", "--json")
    url = json.loads(trunk.stdout.readline())["url"]
    seen = ("--data", "digits.npz", "--apply-view")
    names = [f"camera-{number}" for number in range(1, NUM_SOURCES + 1)]
    cameras = [paceline("split", url, "--token", "S3cret", "--name", name, *seen, "--json") for name in names]
    for camera in cameras:
        told = end(camera)
        assert [event["epoch"] for event in told if event["event"] == "node_spent"] == [1, 2, 0]  # and the end
    (result,) = end(trunk)

    folder = SplitFolder.open(tmp_path / "run")
    told = list(folder.events())
    ended = [event for event in told if isinstance(event, SplitEpochEnded)]
    assert sum(event.num_steps for event in ended) == NUM_STEPS
    assert [event.num_masked for event in ended] == [0, 0]
    assert result["accuracy"] == ended[-1].accuracy
    joined = [event.learner for event in told if isinstance(event, LearnerJoined)]
    assert sorted(joined) == names

    plan = make_plan(config.load_split(tmp_path / "job.toml"))
    expected = in_one_process(plan, joined, cut="f1")
    learned = checkpoints.read(tmp_path / "run/checkpoints/final.safetensors")
    assert len([name for name in learned if name.startswith("branches.")]) == 4 * NUM_SOURCES
    for name, tensor in expected.items():
        torch.testing.assert_close(learned[name], tensor, rtol=1e-4, atol=1e-5)
    assert farthest(learned, in_one_process(plan, joined, epochs=1, cut="f1")) > 1e-3  # an epoch less would be seen
