"""What policies are for: DAB learns more than equal shares in the same time, and the adaptive one is never late."""

import statistics

import pytest

from paceline.learning.datasets import DataSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.parallel.events import ShardsTaken
from paceline.topologies.parallel.report import RunReporting
from tests.topologies.parallel.runs import closed, device, of, play, small_job

RULES = {
    "deadline_seconds": 15.0,
    "local_epochs": 2,
    "batch_size": 8,
    "min_learners": 4,
    "data": DataSpec(name="digits", shard_size=16),
    "optimizer": OptimizerSpec(options={"lr": 0.05}),
}


def fleet(noise=0.0):
    """Four devices of speeds 1:2:4:8 that together can train all of the data once per round and local epoch."""
    return [device(f"d{speed}", 13.0 * speed, speed_noise=noise, link_noise=noise) for speed in (1, 2, 4, 8)]


def test_dab_beats_equal_shares_at_equal_time():
    accuracies, samples = {"dab": [], "eta": []}, {"dab": 0, "eta": 0}
    for seed in range(3):
        for policy in accuracies:
            _, events = play(small_job(policy, rounds=4, seed=seed, **RULES), fleet())
            assert sum(event.seconds for event in closed(events)) <= 4 * 15.0
            accuracies[policy].append(closed(events)[-1].metrics["accuracy"])
            samples[policy] += sum(event.num_samples for event in closed(events))
    assert statistics.mean(accuracies["dab"]) > statistics.mean(accuracies["eta"]) + 0.02
    assert samples["dab"] > 1.3 * samples["eta"]


def test_dab_uses_the_time_of_fast_devices():
    uses = {}
    for policy in ("eta", "dab"):
        _, events = play(small_job(policy, rounds=3, **RULES), fleet(), is_time_only=True)
        learners = RunReporting().summary(events).tables["learners"].records()
        uses[policy] = {one["learner"]: one["deadline_use"] for one in learners}
    assert uses["eta"]["d8"] < 0.6
    assert min(uses["dab"].values()) > 0.95


@pytest.mark.parametrize("seed", [0, 1])
def test_adaptive_dab_is_in_time_under_noise(seed):
    _, events = play(small_job("adaptive-dab", rounds=200, seed=seed, **RULES), fleet(noise=0.2), is_time_only=True)
    summary = RunReporting().summary(events)
    num_shares = len(of(ShardsTaken, events))
    assert num_shares == 800
    assert sum(len(event.late) for event in closed(events)) < 0.01 * num_shares
    assert summary.truancy_max <= 0.01
    assert statistics.mean(summary.tables["learners"].values("deadline_use")) >= 0.95
