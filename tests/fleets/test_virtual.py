"""Fleets on virtual time: a run that cannot go on says so, and devices do what there is time for."""

import msgspec
import pytest

from paceline.devices.energy import PowerModel
from paceline.devices.states import DeviceState
from paceline.errors import ConfigError, PacelineError
from paceline.learning.datasets import DataSpec
from paceline.learning.local_model import LocalModel
from paceline.topologies.events import LearnerJoined
from paceline.topologies.parallel.events import DeviceMeasured, RoundSpent, ShardsTaken, UpdateAccepted
from reproduction.trials import write_part
from tests.topologies.parallel.runs import closed, device, of, play, small_job


def test_a_fleet_smaller_than_a_round_needs_is_refused():
    with pytest.raises(ConfigError, match="the fleet has 1 device; the job needs 2 to begin"):
        play(small_job(min_learners=2), [device("a")])


@pytest.mark.parametrize(
    "lost", [device("mortal", dies_at_seconds=9.0), device("snail", 1e-3)], ids=lambda device: device.name
)
@pytest.mark.parametrize("others", [[], [device("a")]], ids=["alone", "with another"])
def test_a_run_ends_when_too_few_are_left(lost, others):
    with pytest.raises(PacelineError, match=f"{len(others)} of {len(others) + 1} devices are left"):
        play(small_job(rounds=20, min_learners=len(others) + 1), [lost, *others])


def test_a_mistake_of_a_device_is_raised_rather_than_that_it_is_gone(tmp_path):
    part = write_part(DataSpec(name="digits"), tmp_path / "few.npz", num_samples=3)
    job = small_job(min_learners=2, data=msgspec.structs.replace(part, placement="local"))
    with pytest.raises(ConfigError, match="3 samples of few are too few for 4 devices"):
        play(job, [device("a", count=4)])


def test_devices_that_return_are_not_gone():
    _, told = play(small_job(rounds=6), [device("a", dies_at_seconds=9.0, returns_at_seconds=40.0)])
    assert len(closed(told)) == 6
    assert [event.is_back for event in of(LearnerJoined, told)] == [False, True]


def test_less_than_a_minibatch_is_trained_too():
    job = small_job(batch_size=64, data=DataSpec(name="digits", shard_size=16))
    _, told = play(job, [device("a", 10)])  # has time for two shards
    assert [event.num_samples for event in of(UpdateAccepted, told)] == [32] * 4
    assert not any(event.is_halted for event in of(RoundSpent, told))


STATES = (
    DeviceState(name="idle", probability=0.5),
    DeviceState(name="training", probability=0.3, speed=0.25),
    DeviceState(name="downloading", probability=0.2, bandwidth=0.1),
)


def spent_rates(told):
    """Samples per second and seconds of download per shard, by round."""
    return [
        (event.num_samples / event.train_seconds, event.download_seconds / event.num_shards)
        for event in of(RoundSpent, told)
    ]


def test_a_state_is_drawn_for_each_round():
    rounds = spent_rates(play(small_job(rounds=200), [device("a", 200, states=STATES)], is_time_only=True)[1])
    speeds = [round(per_second) for per_second, _ in rounds]
    assert set(speeds) == {200, 50}
    assert 40 <= speeds.count(50) <= 80
    quick = min(seconds for _, seconds in rounds)
    num_slow = sum(seconds > 5 * quick for _, seconds in rounds)
    assert 20 <= num_slow <= 60
    assert not any(seconds > 5 * quick and per_second < 100 for per_second, seconds in rounds)  # one state at a time


def test_a_device_measures_itself_idle_and_states_follow_from_the_seed():
    job, fleet = small_job(rounds=20), [device("a", 200, states=STATES), device("b", 200, states=STATES)]
    _, told = play(job, fleet, is_time_only=True)
    assert [event.profile["train"]["per_second"] for event in of(DeviceMeasured, told)] == [200, 200]
    assert play(job, fleet, is_time_only=True)[1] == told
    by_learner = [[event.train_seconds for event in of(RoundSpent, told) if event.learner == n] for n in "ab"]
    assert by_learner[0] != by_learner[1]


def test_adaptive_dab_bears_changing_states():
    _, told = play(small_job("adaptive-dab", rounds=100), [device("a", 200, states=STATES)], is_time_only=True)
    assert sum(len(event.late) for event in closed(told)) <= 5


def test_a_benchmark_takes_time_and_no_gradients(monkeypatch):
    trained = []
    plain = LocalModel.minibatches

    def minibatches(self, state, shards, *args, **options):
        trained.append(shards)
        return plain(self, state, shards, *args, **options)

    monkeypatch.setattr(LocalModel, "minibatches", minibatches)
    _, told = play(small_job(rounds=2), [device("a"), device("b")])
    assert len(trained) == len(of(ShardsTaken, told)) == 4
    assert all(event.seconds > 0.1 for event in of(DeviceMeasured, told))


def test_a_round_takes_energy_and_bytes():
    power = PowerModel(busy_watts=4.0, idle_watts=1.0, joules_per_byte=0.001)
    _, told = play(small_job(), [device("a", up_mbit=1, latency_ms=50, power=power), device("b", 100)])
    for event in of(RoundSpent, told):
        assert event.cpu_seconds == pytest.approx(event.train_seconds)
        assert event.bytes_sent > 15_000  # the parameters
        assert event.bytes_received > event.bytes_sent  # those, and the shards
        joules = 0.9 * event.cpu_seconds
        if event.learner == "a":
            seconds = event.download_seconds + event.train_seconds + event.upload_seconds
            joules = 4 * event.cpu_seconds + seconds + 0.001 * (event.bytes_sent + event.bytes_received)
        assert event.joules == pytest.approx(joules)
    powers = {event.learner: event.power["busy_watts"] for event in of(DeviceMeasured, told)}
    assert powers == {"a": 4.0, "b": 0.9}
