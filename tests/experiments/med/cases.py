"""Small cases for the tests here: the thesis' devices, and two of its jobs on digits."""

from paceline.learning.datasets import DataSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.prepared import prepare_job
from papers.med.playing import Case
from papers.med.setting import Size, devices_of

ROUNDS = 2


def job(name, **changes):
    rules = {"deadline_seconds": 60.0, "rounds": ROUNDS, "benchmark_shards": 1, **changes}
    optimizer = OptimizerSpec(name="Adam", options={"lr": 1e-3})
    return prepare_job(Job(name=name, optimizer=optimizer, data=DataSpec(name="digits", shard_size=48), **rules))


def case(*, num_devices=4, seed=0, scale=20, **changes):
    """Devices so many times slower than those of the thesis, because there is so little to train."""
    jobs = [job("mnist-ff", local_epochs=2, **changes), job("mnist-cn", **changes)]
    return Case(jobs, devices_of(seed, num_devices, Size(scale=scale)), budget=100.0, seed=seed)
