"""Any job on any fleet: it learns, and its run is kept and reported."""

import pytest

from paceline import (
    DataSpec,
    GossipJob,
    Job,
    LocalDevice,
    LocalFleet,
    ModelSpec,
    Pool,
    SplitJob,
    TestbedDevice,
    TestbedFleet,
    VirtualDevice,
    VirtualFleet,
    load_model,
    train,
)
from paceline.topologies.events import PhaseStarted

MODEL, DATA = ModelSpec(name="two-nn"), DataSpec(name="digits", shard_size=32)
SERVED = {"deadline_seconds": 1.5, "rounds": 2, "min_learners": 2, "benchmark_shards": 2, "data": DATA}
JOBS = {
    "job": Job(**SERVED),
    "pool": Pool(jobs=(Job(name="one", **SERVED), Job(name="two", **SERVED)), min_learners=2),
    "gossip": GossipJob(epochs=2, min_peers=2, model=MODEL, data=DATA),
    "split": SplitJob(cut="3", epochs=1, sources=2, model=MODEL, data=DATA),
}
FLEETS = {
    "virtual": lambda **link: VirtualFleet([VirtualDevice(name="pi", count=2, samples_per_second=1500, **link)]),
    "local": lambda **link: LocalFleet([LocalDevice(name="pi", count=2, **link)]),
    "testbed": lambda **link: TestbedFleet([TestbedDevice(name="pi", count=2, cpu_share=0.8, **link)]),
}
# On processes of this machine, single jobs are tried elsewhere; to a testbed, a pool is the same as one.
TRIED = [
    *(("virtual", kind) for kind in JOBS),
    *(("local", kind) for kind in ("pool", "gossip", "split")),
    *(("testbed", kind) for kind in ("gossip", "split")),
]


@pytest.mark.parametrize(
    ("fleet", "kind"), [pytest.param(*case, marks=[pytest.mark.slow] * (case[0] != "virtual")) for case in TRIED]
)
def test_a_job_runs_on_a_fleet(fleet, kind, tmp_path, request):
    if fleet == "testbed":
        request.getfixturevalue("needs_root")
    seen = []
    devices = FLEETS[fleet](down_mbit=50, up_mbit=20, latency_ms=1)
    run = train(JOBS[kind], devices, folder=tmp_path / "run", watchers=[lambda event, *job: seen.append(event)])

    assert {event.learner for event in seen if isinstance(event, PhaseStarted)} >= {"pi-1", "pi-2"}
    for one in run.jobs.values() or (run,):
        assert one.accuracy > 0.3
        assert set(load_model(one.folder).state_dict()) <= set(one.state) or kind == "split"
    assert run.summary().seconds > 0
    assert "<html" in run.report().read_text()
