"""Small cases for the tests here: the thesis' devices, and two of its jobs on digits."""

from paceline.learning.datasets import DataSpec
from paceline.learning.tasks import OptimizerSpec
from paceline.reproduction.med.playing import Case
from paceline.reproduction.med.setting import Size, devices_of
from paceline.topologies.parallel import Job, make_plan

ROUNDS = 2


def plan(name, **changes):
    rules = {"deadline_seconds": 60.0, "rounds": ROUNDS, "benchmark_shards": 1, **changes}
    optimizer = OptimizerSpec(name="Adam", options={"lr": 1e-3})
    return make_plan(Job(name=name, optimizer=optimizer, data=DataSpec(name="digits", shard_size=48), **rules))


def case(*, num_devices=4, seed=0, scale=20, **changes):
    """Devices so many times slower than those of the thesis, because there is so little to train."""
    plans = [plan("mnist-ff", local_epochs=2, **changes), plan("mnist-cn", **changes)]
    return Case(plans, devices_of(seed, num_devices, Size(scale=scale)), budget=100.0, seed=seed)
