"""Trials on digits: what they learn."""

import pytest

from paceline.topologies.split.events import SplitEpochEnded
from papers.fpl import playing
from papers.fpl.playing import joint_accuracy, learning_rows, play_case
from papers.fpl.setting import FPL_F1, GFL_FF, IMAGES, Size
from reproduction import keeping


def test_there_is_a_row_for_each_epoch(case):
    rows = learning_rows(case, is_kept=False)
    assert [(row["scheme"], row["epoch"], row["steps"]) for row in rows] == [(FPL_F1, 1, 2), (FPL_F1, 2, 2)]
    assert all(row["loss"] > 0 and 0 <= row["accuracy"] <= 100 and row["seconds"] > 0 for row in rows)
    assert [row["joint_accuracy"] for row in rows] == [None, rows[-1]["accuracy"]]  # one model takes all views


@pytest.mark.parametrize("scheme", [IMAGES, GFL_FF])
def test_five_views_together_know_more_than_one(case, scheme):
    trial = play_case(case._replace(scheme=scheme, size=Size(256, 200, 6, None)))
    alone = trial.events_of(SplitEpochEnded)[-1].metrics["accuracy"]
    assert alone - 0.05 < joint_accuracy(trial) <= 1
    assert len(trial.process_seconds) == 6 and all(seconds > 0 for seconds in trial.process_seconds)


def test_rows_are_trained_once_if_they_are_kept(case, tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "default_folder", lambda: tmp_path)
    first = learning_rows(case)
    monkeypatch.setattr(playing, "play_case", None)
    assert learning_rows(case) == first
    with pytest.raises(TypeError):
        learning_rows(case._replace(seed=1))
