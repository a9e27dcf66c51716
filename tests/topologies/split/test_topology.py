"""Split runs as every fleet and every command sees them: what is kept of them, and what a trunk says of itself."""

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import checkpoints
from paceline.learning.datasets import DataSpec
from paceline.report import RunFolder
from paceline.run import load, train
from paceline.topologies.base import Environment
from paceline.topologies.split.events import SplitEnded, SplitEpochEnded
from paceline.topologies.split.topology import TOPOLOGY
from tests.learning.small_data import arrays_of
from tests.topologies.split.runs import device, digits, farthest, fleet, small_job
from tests.topologies.split.trunk_harness import beside_trunk


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run of which a source is away for a while and another comes late; and its events."""
    events = []
    devices = [*fleet(dies_at_seconds=2.0, returns_at_seconds=5.0), device("late", joins_at_seconds=1.0)]
    folder = tmp_path_factory.mktemp("runs") / "mine"
    return train(small_job(epochs=5), VirtualFleet(devices), folder=folder, callbacks=[events.append]), events


def test_what_was_learned_and_all_that_happened_is_kept_and_summed_up(ran):
    run, events = ran
    assert farthest(checkpoints.read(run.folder / "checkpoints/final.safetensors"), run.state) == 0
    sources = {name.split(".")[1] for name in run.state if name.startswith("branches.")}
    assert sources == {"a", "b", "c", "late"}
    assert run.state["head.merge.blocks.late.weight"].shape == (1, 50, 50)
    assert list(RunFolder.open(run.folder).events())[1:] == events[1:]
    (ended,) = [event for event in events if isinstance(event, SplitEnded)]
    assert run.metrics == {"epochs": 5, "loss": ended.loss, **ended.metrics}
    summary = run.summary()
    nodes = summary.tables["totals"].records()
    assert {node["learner"] for node in nodes} == {"trunk", "a", "b", "c", "late"}
    assert [node["learner"] for node in nodes if node["num_masks"]] == ["c"]
    assert sum(summary.tables["parts"].values("in_all")) == sum(each.numel() for each in run.state.values())
    assert summary.num_masked == sum(event.num_masked for event in events if isinstance(event, SplitEpochEnded)) > 0


def test_the_parts_of_a_model_are_put_together_again(ran, tmp_path):
    run, _ = ran
    state = run.model().state_dict()
    head = {name: tensor for name, tensor in run.state.items() if name.startswith("head.")}
    assert farthest({name: state[name] for name in head}, head) == 0
    chosen = train(small_job(cut="auto", epochs=1), VirtualFleet(fleet()), folder=tmp_path / "chosen")
    assert load(chosen.folder).branches[0].state_dict().keys() >= {"1.weight", "1.bias"}
    averaged = train(small_job(scheme="gfl", epochs=1), VirtualFleet(fleet()), folder=tmp_path / "averaged")
    with pytest.raises(ConfigError, match="averaged/.*: a run of gfl learns parts that are no single model"):
        averaged.model()


def test_a_job_that_cannot_be_leaves_no_folder(tmp_path):
    with pytest.raises(ConfigError, match="cut is 'f9'"):
        train(small_job(cut="f9"), VirtualFleet(fleet()), folder=tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_time_alone_cannot_be_simulated():
    with pytest.raises(ConfigError, match="the messages of such a job are made of its gradients"):
        VirtualFleet(fleet(), is_time_only=True).run(TOPOLOGY.prepare(small_job()), Environment())


def test_devices_are_started_with_the_data_of_the_job(tmp_path):
    assert TOPOLOGY.prepare(small_job()).device_options(1, 3) == ()
    path, data = str(tmp_path / "mine.npz"), digits()
    np.savez(path, **arrays_of(data))
    plan = TOPOLOGY.prepare(small_job(data=DataSpec(path=path)))
    assert plan.device_options(1, 3) == ("--data", path, "--apply-view")


@beside_trunk(sources=1)
async def test_a_trunk_says_how_far_it_is(harness):
    (alone,) = await harness.begin("alone")
    assert harness.trunk.status()["status"] == "running"
    assert sum(harness.trunk.device_states().values()) == 1
    await alone.take_part()
    await harness.over()
    status = harness.trunk.status()
    assert (status["status"], status["epochs"], status["planned_epochs"]) == ("over", 2, 2)
    assert status["accuracy"] == harness.trunk.outcome.metrics["accuracy"]
