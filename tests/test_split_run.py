"""Split runs from Python: what is kept of them, what they tell, and folders that are taken."""

import pytest

import paceline
from paceline.errors import ConfigError
from paceline.fleets.virtual_nodes import VirtualNodes
from paceline.learning import checkpoints
from paceline.monitor import SplitFolder
from paceline.runs import train_split
from paceline.topologies.split.events import SplitEnded, SplitEpochEnded
from tests.topologies.split.runs import device, farthest, fleet, small_job


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run of which a source is away for a while and another comes late; and what was told of it meanwhile."""
    told = []
    devices = [*fleet(dies_at_seconds=2.0, returns_at_seconds=5.0), device("late", joins_at_seconds=1.0)]
    folder = tmp_path_factory.mktemp("runs") / "mine"
    return train_split(small_job(epochs=5), VirtualNodes(devices), folder=folder, watchers=[told.append]), told


def test_what_was_learned_is_kept(ran):
    run, _ = ran
    assert farthest(checkpoints.read(run.folder / "checkpoints/final.safetensors"), run.state) == 0
    sources = {name.split(".")[1] for name in run.state if name.startswith("branches.")}
    assert sources == {"a", "b", "c", "late"}
    assert run.state["head.merge.blocks.late.weight"].shape == (1, 50, 50)


def test_all_that_happened_is_kept(ran):
    run, told = ran
    assert list(SplitFolder.open(run.folder).events())[1:] == told[1:]
    (ended,) = [event for event in told if isinstance(event, SplitEnded)]
    assert (run.epochs, run.loss, run.accuracy) == (5, ended.loss, ended.accuracy)


def test_a_run_is_summed_up(ran):
    run, told = ran
    summary = run.summary()
    first, *others = [node.name for node in summary.nodes]
    assert (first, set(others)) == ("trunk", {"a", "b", "c", "late"})
    masks = {node.name: len(node.masks) for node in summary.nodes}
    assert masks["c"] >= 1
    assert masks["a"] == masks["b"] == 0
    assert [change.sources for change in summary.junctions] == [("a", "b", "c", "late")]
    parts = {part.name: (part.num_parameters, part.num_copies) for part in summary.parts}
    assert sum(count * copies for count, copies in parts.values()) == sum(each.numel() for each in run.state.values())
    assert summary.num_masked == sum(event.num_masked for event in told if isinstance(event, SplitEpochEnded)) > 0


def test_a_run_has_a_page(ran):
    run, _ = ran
    page = run.report().read_text()
    assert "late" in page
    assert "two-nn" in page


def test_a_folder_that_is_taken_is_left_alone(ran):
    run, _ = ran
    before = sorted(path.name for path in run.folder.iterdir())
    with pytest.raises(ConfigError, match="mine"):
        train_split(small_job(epochs=1), VirtualNodes(fleet()), folder=run.folder)
    assert sorted(path.name for path in run.folder.iterdir()) == before


def test_a_job_that_cannot_be_leaves_no_folder(tmp_path):
    with pytest.raises(ConfigError, match="cut is 'f9'"):
        train_split(small_job(cut="f9"), VirtualNodes(fleet()), folder=tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_it_is_all_to_be_had_from_the_package():
    assert paceline.train_split is train_split
    assert paceline.SplitJob is type(small_job())
