"""The folder of a split run keeps what nodes told, a row per epoch, and one per node and epoch."""

import csv
import json
import re
from pathlib import Path

import pytest

from paceline.errors import ConfigError
from paceline.monitor import GossipFolder, PoolFolder, RunFolder, SplitFolder
from paceline.monitor.split_folder import EPOCHS, NODES
from paceline.topologies.split.events import NodeSpent, SplitEpochEnded
from tests.monitor.synthetic_split import JOB, split_events

DOCS = Path(__file__).parents[2] / "docs/reference"


def rows_of(folder, name):
    with (folder.path / name).open() as file:
        return list(csv.DictReader(file))


def test_what_is_recorded_is_read_back(make_split):
    folder = SplitFolder.open(make_split().path)
    assert list(folder.events()) == split_events()
    assert folder.job == JOB
    assert folder.versions["seed"] == 5


def test_files_of_a_new_folder(tmp_path):
    with SplitFolder.create(tmp_path / "runs", "cameras", JOB) as folder:
        assert folder.checkpoints.is_dir()
    names = sorted(path.name for path in folder.path.iterdir())
    assert names == ["checkpoints", "epochs.csv", "events.jsonl", "nodes.csv", "split.json", "versions.json"]
    assert json.loads((folder.path / "split.json").read_text()) == JOB
    assert (rows_of(folder, "epochs.csv"), rows_of(folder, "nodes.csv")) == ([], [])


def test_every_epoch_is_a_row(make_split):
    rows = rows_of(make_split(), "epochs.csv")
    assert [int(row["epoch"]) for row in rows] == list(range(1, 9))
    assert rows[2] == {
        "at": "38.0",
        "epoch": "3",
        "seconds": "10.0",
        "num_steps": "90",
        "num_samples": "5760",
        "num_sources": "3",
        "num_masked": "45",
        "train_loss": "0.4608",
        "test_seconds": "1.0",
        "loss": "0.68",
        "accuracy": "0.7704",
    }


def test_every_epoch_of_a_node_is_a_row(make_split):
    folder = make_split()
    spent = [event for event in folder.events() if isinstance(event, NodeSpent)]
    rows = rows_of(folder, "nodes.csv")
    assert [(row["learner"], int(row["epoch"])) for row in rows] == [(one.learner, one.epoch) for one in spent]
    assert rows[3] == {
        "at": "16.0",
        "learner": "trunk",
        "epoch": "1",
        "seconds": "11.0",
        "compute_seconds": "3.0",
        "wait_seconds": "8.0",
        "bytes_sent": "15000000",
        "bytes_received": "15000000",
        "cpu_seconds": "3.0",
        "joules": "120.0",
    }


@pytest.mark.parametrize(("columns", "kind"), [(EPOCHS, SplitEpochEnded), (NODES, NodeSpent)])
def test_a_row_has_all_of_the_event_and_nothing_else(columns, kind):
    assert set(columns) == set(kind.__struct_fields__)


@pytest.mark.parametrize(("columns", "heading"), [(EPOCHS, "## epochs.csv"), (NODES, "## nodes.csv")])
def test_every_column_is_told(columns, heading):
    table = (DOCS / "split-folder.md").read_text().partition(heading)[2].partition("\n## ")[0]
    told = [name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    assert tuple(told) == columns


def test_only_folders_of_split_runs_are_opened(make_split, make_run):
    split, run = make_split(), make_run()
    kinds = (SplitFolder, GossipFolder, PoolFolder, RunFolder)
    assert [kind.is_at(split.path) for kind in kinds] == [True, False, False, False]
    with pytest.raises(ConfigError, match="digits is not a split run folder: it has no split.json and events.jsonl"):
        SplitFolder.open(run.path)


def test_a_folder_with_files_is_not_taken(make_split, tmp_path):
    make_split()
    with pytest.raises(ConfigError, match="cameras exists and is not empty: give the split run another name$"):
        SplitFolder.create(tmp_path, "cameras", JOB)
