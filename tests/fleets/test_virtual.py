"""Fleets on virtual time: a run that cannot go on says so, and devices do what there is time for."""

import pytest

from paceline import events
from paceline.errors import ConfigError, PacelineError
from paceline.learning.datasets import DataSpec
from tests.topologies.parallel.runs import closed, device, of, play, small_job


def test_a_fleet_smaller_than_a_round_needs_is_refused():
    with pytest.raises(ConfigError, match="the fleet has 1 devices; the job's min_learners is 2"):
        play(small_job(min_learners=2), [device("a")])


@pytest.mark.parametrize(
    "lost", [device("mortal", dies_at_seconds=9.0), device("snail", 1e-3)], ids=lambda device: device.name
)
@pytest.mark.parametrize("others", [[], [device("a")]], ids=["alone", "with another"])
def test_a_run_ends_when_too_few_are_left(lost, others):
    with pytest.raises(PacelineError, match=f"{len(others)} of {len(others) + 1} devices are left"):
        play(small_job(rounds=20, min_learners=len(others) + 1), [lost, *others])


def test_a_mistake_of_a_device_is_raised_rather_than_that_it_is_gone():
    job = small_job(min_learners=2, data=DataSpec(name="digits", placement="local"))
    with pytest.raises(ConfigError, match="too few for"):
        play(job, [device("a", count=2000)])


def test_devices_that_return_are_not_gone():
    _, told = play(small_job(rounds=6), [device("a", dies_at_seconds=9.0, returns_at_seconds=40.0)])
    assert len(closed(told)) == 6
    assert [event.is_back for event in of(events.LearnerJoined, told)] == [False, True]


def test_less_than_a_minibatch_is_trained_too():
    job = small_job(batch_size=64, data=DataSpec(name="digits", shard_size=16))
    _, told = play(job, [device("a", 10)])  # has time for two shards
    assert [event.num_samples for event in of(events.UpdateAccepted, told)] == [32] * 4
    assert not any(event.is_halted for event in of(events.RoundSpent, told))
