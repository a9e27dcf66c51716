"""Paceline's side of gossip.py on virtual time: peers in this process that do not train."""

from __future__ import annotations

import time
from unittest import mock

from epochs import VIRTUAL_SECONDS, figures
from paceline.events import Event
from paceline.fleets import virtual
from paceline.fleets.modelled import VirtualDevice
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.topologies.base import Environment
from paceline.topologies.gossip.events import EpochEnded
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.prepared import PreparedJob
from paceline.topologies.gossip.topology import GossipPlan
from random_data import random_dataset, task_of
from traffic import CountedNetwork, Counter, Traffic

NUM_SAMPLES = 50
BATCH_SIZE = 10


def measure_virtual_epochs(*, exchange: str, num_peers: int, num_epochs: int) -> dict[str, float]:
    """An epoch of a TwoNN of 40,480 parameters, the first left out; peers train half a second each.

    Args:
        exchange: ``push-sum``, with one push per peer and epoch on average, or the graph of mixing.
    """
    prepared = prepare(exchange, num_peers, num_epochs)
    network = CountedNetwork(Counter(prepared.model_bytes))
    marks: dict[int, tuple[float, float, Traffic]] = {}

    def emit(event: Event) -> None:
        if isinstance(event, EpochEnded):  # by the first to end it
            marks.setdefault(event.epoch, (time.perf_counter(), event.at, network.counter.traffic))

    device = VirtualDevice(name="d", count=num_peers, samples_per_second=100, down_mbit=100, up_mbit=100, latency_ms=5)
    # A fleet makes its network itself; nothing else shows all that goes over it.
    with mock.patch.object(virtual, "MemoryNetwork", return_value=network):
        virtual.VirtualFleet([device], is_time_only=True).run(GossipPlan(prepared), Environment(emit=emit))
    (start, virtual_start, before), (end, virtual_end, after) = marks[1], marks[num_epochs]
    num_measured = num_epochs - 1
    total = network.counter.traffic
    return {
        **figures(
            seconds=(end - start) / num_measured,
            num_peers=num_peers,
            num_models=total.num_models / num_epochs,
            model_bytes=prepared.model_bytes,
            exchange_bytes=total.exchange_bytes / num_epochs,
            meeting_bytes=after.since(before).meeting_bytes / num_measured,  # also before and after
        ),
        VIRTUAL_SECONDS: (virtual_end - virtual_start) / num_measured,
    }


def prepare(exchange: str, num_peers: int, num_epochs: int) -> PreparedJob:
    """Prepare a job whose peers each have fifty samples."""
    dataset = random_dataset(NUM_SAMPLES * num_peers, side=28, num_test_samples=NUM_SAMPLES)
    job = GossipJob(
        exchange="push-sum" if exchange == "push-sum" else "mixing",
        graph="ring" if exchange == "push-sum" else exchange,
        push_probability=BATCH_SIZE / NUM_SAMPLES,
        epochs=num_epochs,
        batch_size=BATCH_SIZE,
        min_peers=num_peers,
        model=ModelSpec(name="two-nn"),
    )
    task = task_of(job, dataset)
    return PreparedJob(job, task, dataset, LocalModel(task, allowed=None))
