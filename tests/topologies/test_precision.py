"""Precision of jobs: it reaches every device, which trains in it and records it."""

import pytest

from paceline import DataSpec, GossipJob, Job, LocalDevice, LocalFleet, SplitJob, VirtualDevice, VirtualFleet, train
from paceline.topologies.gossip.events import PeerStarted
from paceline.topologies.parallel.events import DeviceMeasured
from paceline.topologies.split.events import NodeStarted

ONCE = {"epochs": 1, "model": "two-nn", "data": "digits"}
JOBS = {
    "job": (Job, {"deadline_seconds": 1.0, "rounds": 1, "data": DataSpec(name="digits", shard_size=64)}),
    "gossip": (GossipJob, ONCE),
    "fpl": (SplitJob, {**ONCE, "cut": "3", "sources": 2}),
    "gfl": (SplitJob, {**ONCE, "scheme": "gfl", "sources": 2}),
    "images": (SplitJob, {**ONCE, "scheme": "images", "sources": 2}),
}
VIRTUAL = VirtualFleet([VirtualDevice(name="pi", count=2, samples_per_second=1000)])


def started(events):
    """What nodes said of themselves as they began."""
    return [event for event in events if isinstance(event, DeviceMeasured | PeerStarted | NodeStarted)]


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_trained_in_its_precision(name, tmp_path):
    kind, rules = JOBS[name]
    losses, events = [], []
    for precision in ("float32", "bfloat16"):
        folder = tmp_path / precision
        job = kind(**rules, precision=precision)
        losses.append(train(job, VIRTUAL, folder=folder, callbacks=[events.append], progress=False).metrics["loss"])
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    said = {(event.precision, event.device) for event in started(events)}
    assert said == {("float32", None), ("bfloat16", None)}  # what is modelled computes on nothing


@pytest.mark.long
def test_processes_say_what_they_compute_on(tmp_path):
    kind, rules = JOBS["gfl"]
    events = []
    fleet = LocalFleet([LocalDevice(name="pi", count=2)], device="auto")
    train(kind(**rules, precision="bfloat16"), fleet, folder=tmp_path / "run", callbacks=[events.append])
    found = started(events)
    assert len(found) == 3
    assert {event.precision for event in found} == {"bfloat16"}
    assert len({event.device for event in found}) == 1
