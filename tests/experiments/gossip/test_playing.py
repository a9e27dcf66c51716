"""Trials on digits: what they take, and what they learn."""

import pytest

from paceline.topologies.gossip.events import ConsensusMeasured
from papers.gossip.playing import learning_rows, play_case, time_row
from papers.gossip.setting import edge_gossip


def test_balanced_platforms_train_less_and_sooner(case):
    gosgd, balanced = (time_row(case, "any", rules) for rules in ({}, edge_gossip()))
    assert gosgd["trained"] == 100
    assert gosgd["ranking"] == 0
    assert 60 < balanced["trained"] < 75  # two of four train a third of what they have, in whole sets
    assert 0 < balanced["ranking"] < 20
    assert 1.2 < gosgd["run_seconds"] / balanced["run_seconds"] < 3  # all of it with a benchmark, which takes as long


def test_gradients_do_not_change_the_time(case):
    timed = time_row(case, "gosgd", {})
    learned = list(learning_rows(case, "gosgd", {}))
    assert [row["epoch"] for row in learned] == [1, 2, 3]
    assert {row["run_seconds"] for row in learned} == {timed["run_seconds"]}
    assert all(0 <= row["accuracy"] <= 100 for row in learned)
    assert timed["accuracy"] is None
    assert list(timed) == list(learned[0])


def test_gosgd_learns_the_same_whatever_the_speeds(case):
    one, other = (
        play_case(case._replace(speeds=speeds), {}) for speeds in ((3.0, 3.0, 1.0, 1.0), (3.0, 3.0, 0.6, 0.6))
    )
    losses = [[event.loss for event in trial.events_of(ConsensusMeasured)] for trial in (one, other)]
    assert losses[0] == pytest.approx(losses[1])
    assert one.seconds < other.seconds
