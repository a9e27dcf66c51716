"""Paceline's side of gossip.py on virtual time: peers in this process that do not train."""

from __future__ import annotations

import time
from unittest import mock

import numpy as np

from epochs import VIRTUAL_SECONDS, figures
from paceline.events import Event
from paceline.fleets import virtual_peers
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.peers import GossipLaunch
from paceline.learning.datasets import Dataset, Normalisation
from paceline.learning.models import ModelSpec
from paceline.learning.tasks import Task
from paceline.learning.training import LocalModel
from paceline.topologies.gossip import GossipJob, GossipPlan
from paceline.topologies.gossip.events import EpochEnded
from traffic import CountedNetwork, Counter, Traffic

NUM_SAMPLES = 50
BATCH_SIZE = 10


def measure_virtual_epochs(*, exchange: str, num_peers: int, num_epochs: int) -> dict[str, float]:
    """An epoch of a TwoNN of 40,480 parameters, the first left out; peers train half a second each.

    Args:
        exchange: ``push-sum``, with one push per peer and epoch on average, or the graph of mixing.
    """
    plan = make_plan(exchange, num_peers, num_epochs)
    network = CountedNetwork(Counter(plan.model_bytes))
    marks: dict[int, tuple[float, float, Traffic]] = {}

    def emit(event: Event) -> None:
        if isinstance(event, EpochEnded):  # by the first to end it
            marks.setdefault(event.epoch, (time.perf_counter(), event.at, network.counter.traffic))

    device = VirtualDevice(name="d", count=num_peers, samples_per_second=100, down_mbit=100, up_mbit=100, latency_ms=5)
    # A fleet makes its network itself; nothing else tells all that goes over it.
    with mock.patch.object(virtual_peers, "MemoryNetwork", return_value=network):
        virtual_peers.VirtualPeers([device], is_time_only=True).run(GossipLaunch(plan=plan, emit=emit))
    (start, virtual_start, before), (end, virtual_end, after) = marks[1], marks[num_epochs]
    num_measured = num_epochs - 1
    total = network.counter.traffic
    return {
        **figures(
            seconds=(end - start) / num_measured,
            num_peers=num_peers,
            num_models=total.num_models / num_epochs,
            model_bytes=plan.model_bytes,
            exchange_bytes=total.exchange_bytes / num_epochs,
            meeting_bytes=after.since(before).meeting_bytes / num_measured,  # peers meet before and after, too
        ),
        VIRTUAL_SECONDS: (virtual_end - virtual_start) / num_measured,
    }


def make_plan(exchange: str, num_peers: int, num_epochs: int) -> GossipPlan:
    """A job whose peers each have fifty samples."""
    chance = np.random.default_rng(0)
    x = chance.integers(0, 256, (NUM_SAMPLES * num_peers, 1, 28, 28), dtype=np.uint8)
    y = np.arange(len(x), dtype=np.uint8) % 10
    dataset = Dataset("random", x, y, x[:NUM_SAMPLES], y[:NUM_SAMPLES], Normalisation.of(x))
    job = GossipJob(
        exchange="push-sum" if exchange == "push-sum" else "mixing",
        graph="ring" if exchange == "push-sum" else exchange,
        push_probability=BATCH_SIZE / NUM_SAMPLES,
        epochs=num_epochs,
        batch_size=BATCH_SIZE,
        min_peers=num_peers,
        model=ModelSpec(name="two-nn"),
    )
    task = Task(
        model=job.model,
        optimizer=job.optimizer,
        normalisation=dataset.normalisation,
        input_shape=dataset.input_shape,
        num_classes=dataset.num_classes,
        batch_size=job.batch_size,
    )
    return GossipPlan(job=job, task=task, dataset=dataset, model=LocalModel(task, allowed=None))
