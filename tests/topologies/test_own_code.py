"""Models, tasks and data of the user's in jobs of every kind: what is wrong with them is said in one line."""

import asyncio

import numpy as np
import pytest

from paceline import GossipJob, Job, SplitJob
from paceline.errors import ConfigError
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.tasks import TaskSpec
from paceline.topologies import of_job
from paceline.topologies.parallel.topology import TOPOLOGY, JobPlan
from tests.topologies.parallel.runs import ByHand, node_of

CODE = """
import torch
from torch import nn
import paceline
from paceline.learning.preprocessing import Standardise

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

class Few(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 3))

class Frozen(Net):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)

def Numbers():
    return [1, 2]

class Own(paceline.Task):
    def model(self):
        return nn.Sequential(Standardise(), nn.Flatten(), nn.Linear(64, 10))

    def loss(self, model, batch):
        x, y = batch
        return nn.functional.cross_entropy(model(x), y.long())

class Choosy(Own):
    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1)
"""
JOBS = {
    "parallel": (Job, {"deadline_seconds": 3.0}),
    "gossip": (GossipJob, {}),
    "split": (SplitJob, {"scheme": "gfl", "sources": 2}),
}


@pytest.fixture(params=JOBS)
def prepare(request, tmp_path):
    """Make a job of each kind ready, with some code of the user's."""
    (tmp_path / "own.py").write_text(CODE)
    kind, rules = JOBS[request.param]

    def prepare(model=None, task=None, **changes):
        if model is not None:
            changes["model"] = ModelSpec(import_path=f"{tmp_path}/own.py:{model}")
        if task is not None:
            changes["task"] = TaskSpec(import_path=f"{tmp_path}/own.py:{task}")
        job = kind(**{**rules, **changes})
        return of_job(job).prepare(job)

    return prepare


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ({"model": "Few"}, "shape"),
        ({"model": "Frozen"}, "has no parameters that can be trained"),
        ({"model": "Numbers"}, "made no torch.nn.Module but a list"),
        ({"model": "Missing"}, "Missing"),
        ({"task": "Net"}, "is not a class derived from paceline.Task"),
        ({"task": "Own", "model": "Net"}, "the task makes its own model: leave out name and import in [model]"),
    ],
)
def test_what_is_wrong_with_code_is_said_in_one_line(prepare, code, said):
    with pytest.raises(ConfigError) as caught:
        prepare(**code)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_task_and_what_it_makes_are_what_devices_have_to_allow(prepare):
    (path,) = prepare(task="Own").import_paths
    assert path.endswith("own.py:Own")


def test_parts_of_a_model_do_not_follow_a_task_with_an_optimizer_of_its_own(tmp_path):
    (tmp_path / "own.py").write_text(CODE)
    choosy = TaskSpec(import_path=f"{tmp_path}/own.py:Choosy")
    job = SplitJob(cut="2", sources=2, task=choosy)
    with pytest.raises(ConfigError, match=r"has optimizer\(\) of its own, but the parts of a model that is cut"):
        of_job(job).prepare(job)
    whole = SplitJob(scheme="gfl", sources=2, task=choosy)
    assert of_job(whole).prepare(whole).import_paths


OTHER_DATA = {
    "floats": ({"x_train": np.ones((40, 1, 8, 8), np.float32), "y_train": np.zeros(40, np.uint8)}, "float32"),
    "other shape": ({"x_train": np.ones((40, 1, 7, 8), np.uint8), "y_train": np.zeros(40, np.uint8)}, "7, 8"),
    "other classes": ({"x_train": np.ones((40, 1, 8, 8), np.uint8), "y_train": np.full(40, 12)}, "12"),
}


@pytest.mark.parametrize(("arrays", "said"), OTHER_DATA.values(), ids=OTHER_DATA)
def test_data_of_a_devices_own_that_does_not_fit_is_refused_in_one_line(tmp_path, arrays, said):
    path = str(tmp_path / "own.npz")
    np.savez(path, **arrays)
    by_hand = ByHand(data=DataSpec(placement="local"))

    async def main(orchestrator):
        async with node_of(orchestrator, JobPlan(by_hand.prepared), [], data=path) as node:
            await asyncio.wait_for(TOPOLOGY.join(node).run(""), 60)

    with pytest.raises(ConfigError) as caught:
        by_hand.play(main)
    assert said in str(caught.value)
    assert "the job wants" in str(caught.value)
    assert "\n" not in str(caught.value)
