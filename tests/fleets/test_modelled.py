"""Modelled trainers: the device's time for losses and points, real answers, and optimizers of their own."""

import asyncio
import math
import random

import numpy as np
import pytest

from paceline.axon.transports.links import Link, LinkInUse
from paceline.devices.energy import ModelledMeter, PowerModel
from paceline.devices.states import DeviceState
from paceline.fleets.modelled import ModelledLoad, ModelledTrainer, VirtualDevice
from paceline.learning.aggregated_points import PointsSpec, aggregate
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.trainers import TrainOptions
from tests.learning.small_tasks import are_equal, make_model, make_shards

POINTS = PointsSpec(reduction="hash", division="lsh", ratio=4)


def make_trainer(model=None, *, is_time_only=False, meter=None, **fields):
    device = VirtualDevice(**{"name": "pi", "samples_per_second": 10.0} | fields)
    load = ModelledLoad(device, LinkInUse(Link()), random.Random(0))
    load.begin_round()
    model = model or make_model()
    meter = meter or ModelledMeter(PowerModel(), lambda: 0.0)
    return ModelledTrainer(model.spec, model.parameters(), None if is_time_only else model, load, 0, meter)


def timed(run_virtual, work):
    """What the work gives, and the virtual seconds that it took."""

    async def main():
        start = asyncio.get_running_loop().time()
        return await work, asyncio.get_running_loop().time() - start

    return run_virtual(main())


def test_losses_are_real_and_take_a_third_of_the_time_of_training(run_virtual):
    model, (shard,) = make_model("two-nn"), make_shards(60)
    trainer = make_trainer(model, cpu_share=0.5)
    found, seconds = timed(run_virtual, trainer.losses(model.parameters(), shard))
    assert np.array_equal(found.values, np.concatenate(list(model.losses(model.state(), shard))))
    assert found.seconds == seconds == pytest.approx(60 / (3 * 5))


def test_without_a_model_losses_are_zeros_that_take_time(run_virtual):
    (shard,) = make_shards(60)
    found, seconds = timed(run_virtual, make_trainer(is_time_only=True).losses({}, shard))
    assert (found.values.dtype, found.values.tolist()) == (np.float32, [0.0] * 60)
    assert seconds == pytest.approx(2)


@pytest.mark.parametrize(("speed", "expected"), [(math.inf, 0), (8, 10)])
@pytest.mark.parametrize("is_time_only", [False, True])
def test_points_are_real_and_take_time(run_virtual, speed, expected, is_time_only):
    (shard,) = make_shards(40)
    trainer = make_trainer(is_time_only=is_time_only, cpu_share=0.5, aggregates_per_second=speed)
    made, seconds = timed(run_virtual, trainer.aggregate(shard, POINTS))
    assert np.array_equal(made.points.x, aggregate(*shard, POINTS).x)
    assert made.seconds == seconds == pytest.approx(expected)
    assert not made.is_cached


def test_devices_that_hold_the_same_share_the_work_but_take_the_time_each(run_virtual):
    (shard,) = make_shards(40)
    first, second = (
        timed(run_virtual, make_trainer(aggregates_per_second=20).aggregate(shard, POINTS)) for _ in range(2)
    )
    assert first[0].points is second[0].points
    assert first[1] == second[1] == pytest.approx(2)


BUSY = (DeviceState(name="training", probability=1.0, speed=0.5),)


@pytest.mark.parametrize(
    ("fields", "cpu_seconds"),
    [({}, 6), ({"cpu_share": 0.5}, 6), ({"cpu_share": 2.0}, 6), ({"states": BUSY}, 6), ({"samples_per_second": 5}, 12)],
)
def test_the_processor_works_as_long_as_its_work_takes_whatever_share_of_it_there_is(run_virtual, fields, cpu_seconds):
    meter = ModelledMeter(PowerModel(), lambda: 0.0)
    trainer, (shard,) = make_trainer(is_time_only=True, meter=meter, **fields), make_shards(60)
    timed(run_virtual, trainer.train({}, [shard]))
    assert meter.read().cpu_seconds == pytest.approx(cpu_seconds)
    timed(run_virtual, trainer.losses({}, shard))
    assert meter.read().cpu_seconds == pytest.approx(cpu_seconds / 3)


def test_noise_is_of_all_that_a_device_does(run_virtual):
    (shard,) = make_shards(40)
    trainer = make_trainer(speed_noise=0.2, aggregates_per_second=10)
    seconds = {timed(run_virtual, trainer.aggregate(shard, POINTS))[1] for _ in range(5)}
    assert len(seconds) == 5
    assert all(4 / 1.2 <= taken <= 4 / 0.8 for taken in seconds)


def test_devices_that_share_a_model_keep_their_optimizers_apart(run_virtual):
    optimizer = OptimizerSpec(options={"lr": 0.1, "momentum": 0.9})
    mine, others = make_shards(8), make_shards(8, seed=1)
    start = make_model().parameters()

    def epochs(*turns):
        """What each device knows after its turns, on one model."""
        model = make_model(optimizer=optimizer)
        trainers, known = [make_trainer(model) for _ in range(2)], [start, start]

        async def main():
            for who in turns:
                trained = await trainers[who].train(
                    known[who], (mine, others)[who], TrainOptions(is_shuffled=False, keeps_optimizer=True)
                )
                known[who] = trained.parameters

        run_virtual(main())
        return known

    assert are_equal(epochs(0, 1, 0, 1, 0)[0], epochs(0, 0, 0)[0])
    whole = make_model(optimizer=optimizer)
    list(whole.minibatches(whole.layout.unpack(start), mine, 0, 3, is_shuffled=False))
    assert are_equal(epochs(0, 0, 0)[0], whole.parameters())
