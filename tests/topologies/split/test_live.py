"""Five sources, each a process of its own, and a trunk learn what one process with the same model would."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.learning.datasets import DataSpec
from paceline.run import train
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split.events import NodeSpent, SplitEpochEnded
from paceline.topologies.split.jobs import SplitJob
from paceline.topologies.split.prepared import prepare_split
from tests.learning.small_data import arrays_of
from tests.topologies.split.runs import ADAM, digits, farthest, in_one_process

NUM_SOURCES = 5
CUT = "f1"


@pytest.mark.long
def test_five_sources_and_a_trunk_equal_one_process(tmp_path):
    data = digits()
    np.savez(tmp_path / "digits.npz", **arrays_of(data, slice(160)))
    rules = {"cut": CUT, "epochs": 2, "batch_size": 16, "sources": NUM_SOURCES, "seed": 7, "optimizer": ADAM}
    job = SplitJob(**rules, data=DataSpec(path=str(tmp_path / "digits.npz")))
    events = []
    cameras = LocalFleet([LocalDevice(name="camera", count=NUM_SOURCES)])
    run = train(job, cameras, folder=tmp_path / "run", callbacks=[events.append])

    ended = [event for event in events if isinstance(event, SplitEpochEnded)]
    assert sum(event.num_steps for event in ended) == 20
    assert [event.num_masked for event in ended] == [0, 0]
    assert run.accuracy == ended[-1].metrics["accuracy"]
    joined = [event.learner for event in events if isinstance(event, LearnerJoined)]
    assert sorted(joined) == [f"camera-{number}" for number in range(1, NUM_SOURCES + 1)]
    for name in joined:
        spent = [event.epoch for event in events if isinstance(event, NodeSpent) and event.learner == name]
        assert spent == [1, 2, 0]  # and the end

    prepared = prepare_split(job)
    assert len([name for name in run.state if name.startswith("branches.")]) == 4 * NUM_SOURCES
    for name, tensor in in_one_process(prepared, joined, cut=CUT).items():
        torch.testing.assert_close(run.state[name], tensor, rtol=1e-4, atol=1e-5)
    an_epoch_less = in_one_process(prepared, joined, epochs=1, cut=CUT)
    assert farthest(run.state, an_epoch_less) > 1e-3


KILLED = """\
[split]
cut = "3"
epochs = 14
batch_size = 64
sources = 2
[model]
name = "two-nn"
[optimizer]
name = "Adam"
lr = 0.001
[data]
name = "digits"
"""


@pytest.mark.long
def test_a_trunk_that_is_killed_goes_on_and_its_sources_come_back_by_themselves(tmp_path):
    (tmp_path / "job.toml").write_text(KILLED)

    def start(*words):
        command = [sys.executable, "-m", "paceline", *words]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def epochs():
        path = tmp_path / "run" / "epochs.csv"
        return len(path.read_text().splitlines()) - 1 if path.exists() else 0

    started = [start("serve", "job.toml", "--folder", "run", "--port", "0", "--json")]
    try:
        url = json.loads(started[0].stdout.readline())["url"]
        started += [start("join", url, "--name", name, "--emulate", "slowdown=20") for name in "ab"]
        for _ in range(1200):
            if epochs() >= 4:
                break
            time.sleep(0.1)
        started[0].kill()
        started[0].wait()
        assert 4 <= epochs() < 14
        again = start("resume", "run", "--json")
        started.append(again)
        out, errors = again.communicate(timeout=180)
        assert again.returncode == 0, errors
        assert json.loads(out.splitlines()[-1])["accuracy"] > 0.5
        assert epochs() == 14
        assert [source.wait(timeout=60) for source in started[1:3]] == [0, 0]
    finally:
        for process in started:
            process.kill()
            process.communicate()
