"""Five sources, each a process of its own, and a trunk learn what one process with the same model would."""

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
