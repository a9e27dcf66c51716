"""Any job on any fleet: it learns, and its run is kept and reported."""

import pytest
from torch import nn

from paceline import (
    DataSpec,
    GossipJob,
    Job,
    LocalDevice,
    LocalFleet,
    ModelSpec,
    OptimizerSpec,
    PartitionSpec,
    Pool,
    SplitJob,
    VirtualDevice,
    VirtualFleet,
    train,
)
from paceline.fleets import testbed
from paceline.topologies.events import PhaseStarted

DATA = DataSpec(name="digits", shard_size=32)
SERVED = {"deadline_seconds": 1.5, "rounds": 2, "min_learners": 2, "benchmark_shards": 2, "data": DATA}
LOCAL = DataSpec(name="digits", shard_size=32, placement="local")
ADAM = OptimizerSpec(name="Adam", options={"lr": 0.01})
OTHER = {"epochs": 2, "model": ModelSpec(name="two-nn"), "optimizer": ADAM, "data": DATA}
JOBS = {
    "job": Job(**SERVED),
    "federated": Job(**{**SERVED, "data": LOCAL, "local_epochs": 3}, partition=PartitionSpec(kind="quantity")),
    "pool": Pool(jobs=(Job(name="one", **SERVED), Job(name="two", **SERVED)), min_learners=2),
    "gossip": GossipJob(min_peers=2, **OTHER),
    "split": SplitJob(cut="3", sources=2, **OTHER),
}
FLEETS = {
    "virtual": lambda **link: VirtualFleet([VirtualDevice(name="pi", count=2, samples_per_second=1500, **link)]),
    "local": lambda **link: LocalFleet([LocalDevice(name="pi", count=2, **link)]),
    "testbed": lambda **link: testbed.TestbedFleet([testbed.TestbedDevice(name="pi", count=2, cpu_share=0.8, **link)]),
}
# On processes of this machine, single jobs are tried elsewhere; to a testbed, a pool is the same as one.
TRIED = [
    *(pytest.param("virtual", kind) for kind in JOBS),
    pytest.param("local", "split", marks=pytest.mark.slow),
    *(pytest.param("local", kind, marks=pytest.mark.long) for kind in ("federated", "pool", "gossip")),
    *(pytest.param("testbed", kind, marks=pytest.mark.long) for kind in ("federated", "gossip", "split")),
]


@pytest.mark.parametrize(("fleet", "kind"), TRIED)
def test_a_job_runs_on_a_fleet(fleet, kind, tmp_path, request):
    if fleet == "testbed":
        request.getfixturevalue("needs_root")
    seen = []
    devices = FLEETS[fleet](down_mbit=50, up_mbit=20, latency_ms=1)
    run = train(JOBS[kind], devices, folder=tmp_path / "run", callbacks=[lambda event, *job: seen.append(event)])

    assert {event.learner for event in seen if isinstance(event, PhaseStarted)} >= {"pi-1", "pi-2"}
    for one in run.jobs.values() or (run,):
        assert one.accuracy > 0.5
        assert isinstance(one.model(), nn.Module)
    assert run.summary().seconds > 0
    assert "<html" in run.report().read_text()
