"""Profiling trains beside every load in turn, and notes what was used meanwhile."""

import asyncio
import collections

import numpy as np
import psutil
import pytest

from paceline.devices.contention.loads import IDLE, Load
from paceline.devices.contention.profiling import NUM_TURNS, profile_training
from paceline.devices.contention.regression import fit_slowdown
from paceline.devices.contention.usage import Counters
from paceline.learning.shards import Shard
from paceline.learning.trainers import DEFAULT_OPTIONS, Trained, Trainer

SHARDS = [Shard(np.zeros((4, 2), dtype=np.uint8), np.zeros(4, dtype=np.int64))]
LOADS = (IDLE, Load(num_processes=1), Load(num_processes=2))


class ModelledDevice(Trainer):
    """A device that trains a sample in 10 ms, or in so much longer as there are loads beside; and its counters."""

    def __init__(self, batch_seconds=0.04):
        self.num_batch_samples, self.batch_seconds = 4, batch_seconds
        self.busy_seconds = 0.0

    def initial_parameters(self):
        return None

    async def train(self, parameters, shards, options=DEFAULT_OPTIONS):
        loop, num_samples, start = asyncio.get_running_loop(), 0, asyncio.get_running_loop().time()
        num_loads = len(psutil.Process().children())
        batch_seconds = self.batch_seconds * (1 + num_loads)
        while num_samples < options.local_epochs * 4 and loop.time() + batch_seconds <= options.until:
            await asyncio.sleep(batch_seconds)
            self.busy_seconds += batch_seconds * num_loads / (1 + num_loads)
            num_samples += self.num_batch_samples
        return Trained(None, num_samples, loop.time() - start, is_halted=True)

    def read(self):
        now = asyncio.get_running_loop().time()
        return Counters(now, now, self.busy_seconds, 0, 0)


def test_every_load_has_its_turns_and_the_slowdown_is_found(run_virtual):
    device, told = ModelledDevice(), []
    observations = run_virtual(
        profile_training(
            device, SHARDS, LOADS, seconds=90, read=device.read, watch=lambda done, turns: told.append((done, turns))
        )
    )
    assert collections.Counter(observation.load for observation in observations) == {
        load.name: NUM_TURNS for load in LOADS
    }
    assert told == [(done, 9) for done in range(1, 10)]
    for observation in observations:
        num_loads = next(load.num_processes for load in LOADS if load.name == observation.load)
        assert observation.seconds_per_sample == pytest.approx(0.01 * (1 + num_loads))
        assert observation.usage.cpu_ratio == pytest.approx(num_loads / (1 + num_loads), abs=0.02)
    alone, slowdown = fit_slowdown(observations)
    assert alone == pytest.approx(0.01, rel=0.05)
    assert [slowdown.ratio(o.usage) for o in observations] == pytest.approx(
        [o.seconds_per_sample / 0.01 for o in observations], rel=0.05
    )


def test_the_order_is_another_each_turn_and_follows_from_the_seed(run_virtual):
    def order(seed):
        device = ModelledDevice()
        found = run_virtual(profile_training(device, SHARDS, LOADS, seconds=9, seed=seed, read=device.read))
        return [observation.load for observation in found]

    first = order(1)
    assert first == order(1) != order(2)
    assert first[:3] != first[3:6]


def test_a_device_that_is_too_slow_for_its_turns_is_given_the_time_it_takes(run_virtual):
    device = ModelledDevice(batch_seconds=10)
    observations = run_virtual(profile_training(device, SHARDS, (IDLE,), seconds=3, read=device.read))
    assert [observation.seconds_per_sample for observation in observations] == pytest.approx([2.5] * NUM_TURNS)
