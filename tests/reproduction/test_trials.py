"""Runs inside experiments: they give events and states, and states are assessed as they should be."""

import math

import numpy as np
import pytest
import torch

from paceline import Job, Pool, VirtualDevice
from paceline.allocation import MedAllocation, MmttAllocation
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import datasets
from paceline.learning.datasets import DataSpec
from paceline.learning.preprocessing import Normalisation
from paceline.learning.tasks import TaskSpec
from paceline.topologies.parallel.events import DeviceMeasured, PoolStarted, RoundClosed
from paceline.topologies.parallel.prepared import prepare_job
from reproduction.trials import assess, checksum, play_pool, simulate, write_part

DEVICES = [VirtualDevice(name="device", count=2, samples_per_second=500)]


def job(**changes):
    return Job(**{"deadline_seconds": 2.0, "rounds": 3, "min_learners": 2, **changes})


def test_a_trial_has_all_events_and_the_states_around_each_round():
    trial = simulate(job(), DEVICES)
    assert [closed.round for closed in trial.events_of(RoundClosed)] == [1, 2, 3]
    assert len(trial.events_of(DeviceMeasured)) == 2
    assert len(trial.states) == 4
    first, *_, last = assess(job(), trial.states)
    assert last.loss < first.loss
    assert last.accuracy > first.accuracy


def test_a_trial_of_time_only_takes_the_same_time_and_learns_nothing():
    trial, timed = simulate(job(), DEVICES), simulate(job(), DEVICES, is_time_only=True)
    seconds = [[closed.seconds for closed in each.events_of(RoundClosed)] for each in (trial, timed)]
    assert seconds[0] == pytest.approx(seconds[1])
    assert all(torch.equal(timed.states[0][name], timed.states[-1][name]) for name in timed.states[0])


@pytest.mark.parametrize("loss", ["cross-entropy", "cross-entropy-of-softmax"])
def test_scores_agree_with_how_a_run_evaluates(loss):
    whole = job(task=TaskSpec(loss=loss))
    prepared = prepare_job(whole)
    (scores,) = assess(whole, [prepared.state])
    assert (scores.loss, {"accuracy": scores.accuracy}) == prepared.evaluate(prepared.state)


def test_models_can_be_fed_otherwise():
    dark = Normalisation(scale=0.0, mean=(0.0,), std=(1.0,))
    seen, blind = simulate(job(), DEVICES), simulate(job(), DEVICES, normalisation=dark)
    assert assess(job(), seen.states)[-1].accuracy > 0.5
    assert assess(job(), blind.states)[-1].accuracy < 0.2


def test_a_model_that_does_not_choose_has_the_confidence_of_chance():
    state = prepare_job(job()).state
    (scores,) = assess(job(), [{name: torch.zeros_like(tensor) for name, tensor in state.items()}])
    assert scores.confidence == pytest.approx(0.1)
    assert scores.loss == pytest.approx(math.log(10))


def test_a_part_has_as_many_shards_as_the_whole(tmp_path):
    whole = DataSpec(name="digits", shard_size=40)
    part = write_part(whole, tmp_path / "part.npz", num_samples=288, num_test_samples=50)
    data, all_data = datasets.load(part), datasets.load(whole)
    assert (len(data.train), len(data.test)) == (288, 50)
    assert math.ceil(288 / part.shard_size) == math.ceil(len(all_data.train) / whole.shard_size)


def test_a_part_has_all_test_samples_if_not_told_otherwise(tmp_path):
    whole = DataSpec(name="digits")
    data = datasets.load(write_part(whole, tmp_path / "part.npz", num_samples=100))
    assert np.array_equal(np.sort(data.test.labels()), np.sort(datasets.load(whole).test.labels()))


def test_a_part_can_have_four_bytes_a_pixel(tmp_path):
    whole = DataSpec(name="digits")
    small = datasets.load(write_part(whole, tmp_path / "small.npz", num_samples=100))
    large = datasets.load(write_part(whole, tmp_path / "large.npz", num_samples=100, dtype="float32"))
    assert [table.columns[0].dtype for table in (small.train, large.train, large.test)] == ["uint8", *["float32"] * 2]
    assert np.array_equal(small.train.take(slice(None)).x, large.train.take(slice(None)).x)


def test_parts_drawn_alike_have_the_same_checksum(tmp_path):
    parts = [
        write_part(DataSpec(name="digits"), tmp_path / f"{number}.npz", num_samples=100, seed=seed)
        for number, seed in enumerate((0, 0, 1))
    ]
    one, again, other = (checksum(datasets.load(part)) for part in parts)
    assert one == again != other


def test_a_pool_is_played_with_one_policy_after_the_other():
    jobs = [prepare_job(job(name=name)) for name in ("one", "two")]
    for policy in (MedAllocation(), MmttAllocation()):
        pool = Pool(allocation=policy, min_learners=2)
        trial = play_pool(pool, jobs, VirtualFleet(DEVICES, is_time_only=True))
        assert list(trial.jobs) == ["one", "two"]
        for own in trial.jobs.values():
            assert [closed.round for closed in own.events_of(RoundClosed)] == [1, 2, 3]
        [started] = trial.events_of(PoolStarted)
        assert started.pool["allocation"]["policy"] == ("med" if policy == MedAllocation() else "mmtt")
        assert trial.events_of(RoundClosed) == []
    assert jobs[0].job == job(name="one")
