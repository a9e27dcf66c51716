"""Every tracker fulfils the contract."""

import pytest

from paceline.report.trackers import TRACKERS
from paceline.report.trackers.json_lines import JsonTracker
from paceline.report.trackers.mlflow import MlflowTracker
from paceline.report.trackers.tensorboard import TensorBoardTracker
from paceline.report.trackers.wandb import WandbTracker
from paceline.testing.trackers import TrackerTests


class TestJson(TrackerTests):
    make = JsonTracker


class TestTensorBoard(TrackerTests):
    make = TensorBoardTracker


class TestMlflow(TrackerTests):
    make = MlflowTracker

    @pytest.fixture(autouse=True)
    def in_files(self, monkeypatch):
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


class TestWandb(TrackerTests):
    make = WandbTracker

    @pytest.fixture(autouse=True)
    def without_leftovers(self, monkeypatch):
        import wandb

        monkeypatch.delenv("WANDB_MODE", raising=False)
        yield
        wandb.teardown()  # the process that writes for it


def test_all_are_tried():
    tried = {one.make for one in TrackerTests.__subclasses__()}
    assert tried == set(TRACKERS.members.values())
