"""The folder of a gossip run keeps what peers told, and a row for each of their epochs."""

import csv
import json
import re
from pathlib import Path

import pytest

from paceline.errors import ConfigError
from paceline.monitor import GossipFolder, PoolFolder, RunFolder
from paceline.monitor.gossip_folder import EPOCHS
from paceline.topologies.gossip.events import EpochEnded
from tests.monitor.synthetic_gossip import JOB, gossip_events

DOCS = Path(__file__).parents[2] / "docs/reference"


def rows_of(folder):
    with (folder.path / "epochs.csv").open() as file:
        return list(csv.DictReader(file))


def test_what_is_recorded_is_read_back(make_gossip):
    folder = GossipFolder.open(make_gossip().path)
    assert list(folder.events()) == gossip_events()
    assert folder.job == JOB
    assert folder.versions["seed"] == 3


def test_files_of_a_new_folder(tmp_path):
    with GossipFolder.create(tmp_path / "runs", "shelf", JOB) as folder:
        assert folder.checkpoints.is_dir()
    names = sorted(path.name for path in folder.path.iterdir())
    assert names == ["checkpoints", "epochs.csv", "events.jsonl", "gossip.json", "versions.json"]
    assert json.loads((folder.path / "gossip.json").read_text()) == JOB
    assert rows_of(folder) == []


def test_every_epoch_of_a_peer_is_a_row(make_gossip):
    folder = make_gossip()
    ended = [event for event in folder.events() if isinstance(event, EpochEnded)]
    rows = rows_of(folder)
    assert [(row["learner"], int(row["epoch"]), float(row["at"])) for row in rows] == [
        (event.learner, event.epoch, event.at) for event in ended
    ]
    assert rows[0] == {
        "at": "9.0",
        "learner": "jetson",
        "epoch": "1",
        "seconds": "6.0",
        "num_samples": "500",
        "ratio": "1.0",
        "samples_per_second": "100.0",
        "train_seconds": "5.0",
        "rank_seconds": "0.5",
        "exchange_seconds": "0.5",
        "num_exchanges": "2",
        "bytes_sent": "80000",
        "bytes_received": "80000",
        "cpu_seconds": "5.5",
        "joules": "11.0",
        "distance": "0.1",
        "mass": "0.0",
        "loss": rows[0]["loss"],
        "accuracy": "0.48",
    }
    assert float(rows[0]["loss"]) == pytest.approx(0.52)


def test_a_row_has_all_of_the_event_and_nothing_else():
    assert set(EPOCHS) == set(EpochEnded.__struct_fields__)


def test_every_column_is_told():
    table = (DOCS / "gossip-folder.md").read_text().partition("## epochs.csv")[2]
    told = [name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    assert tuple(told) == EPOCHS


def test_only_folders_of_gossip_runs_are_opened(make_gossip, make_run):
    gossip, run = make_gossip(), make_run()
    kinds = (GossipFolder, PoolFolder, RunFolder)
    assert [kind.is_at(gossip.path) for kind in kinds] == [True, False, False]
    assert [kind.is_at(run.path) for kind in kinds] == [False, False, True]
    with pytest.raises(ConfigError, match="digits is not a gossip run folder: it has no gossip.json and events.jsonl"):
        GossipFolder.open(run.path)


def test_a_folder_with_files_is_not_taken(make_gossip, tmp_path):
    make_gossip()
    with pytest.raises(ConfigError, match="shelf exists and is not empty: give the gossip run another name$"):
        GossipFolder.create(tmp_path, "shelf", JOB)
