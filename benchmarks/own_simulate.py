"""Paceline's side of simulate.py: fleets on virtual time in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from paceline.allocation import DabAllocation, RoundTerms
from paceline.events import Event
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.averaging import State
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import ShardStore
from paceline.learning.vectors import Layout
from paceline.topologies.base import Environment
from paceline.topologies.parallel.events import RoundClosed
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.prepared import PreparedJob
from paceline.topologies.parallel.topology import JobPlan
from random_data import random_dataset, task_of

NUM_SAMPLES = 50
TWO_NN = (784, 50, 20, 10)


def measure_virtual_rounds(
    *, widths: Sequence[int], num_learners: int, num_rounds: int, work: Literal["none", "gradient"]
) -> list[float]:
    """Real seconds of each virtual round. Work "none" is the time-only trainer.

    Work "gradient" is that of Flower's client: one step of SGD, learning rate 0.1, on fifty samples in one batch.
    """
    assert tuple(widths) == TWO_NN
    prepared = prepare(num_learners, num_rounds)
    closed_at = [time.perf_counter()]

    def emit(event: Event) -> None:
        if isinstance(event, RoundClosed):
            assert event.num_updates == num_learners
            closed_at.append(time.perf_counter())

    device = VirtualDevice(
        name="d", count=num_learners, samples_per_second=100, down_mbit=100, up_mbit=100, latency_ms=5
    )
    VirtualFleet([device], is_time_only=work == "none").run(JobPlan(prepared), Environment(emit=emit))
    return [later - earlier for earlier, later in pairwise(closed_at)]


def prepare(num_learners: int, num_rounds: int, state: State | None = None) -> PreparedJob:
    """Prepare a job whose learners each train one shard of fifty samples a round; `state` may be another model's."""
    dataset = random_dataset(NUM_SAMPLES, side=28, num_test_samples=1)
    job = Job(
        deadline_seconds=60,
        rounds=num_rounds,
        batch_size=NUM_SAMPLES,
        min_learners=num_learners,
        benchmark_shards=1,
        model=ModelSpec(name="two-nn"),
        optimizer=OptimizerSpec(name="SGD", options={"lr": 0.1}),
        allocation=DabAllocation(),
    )
    task = task_of(job, dataset)
    store, model = ShardStore(dataset.train, NUM_SAMPLES, seed=0), LocalModel(task)
    if state is None:
        state = model.state()
    else:
        model.layout = Layout(state)  # all that is used of it
    terms = RoundTerms(
        deadline_seconds=job.deadline_seconds,
        local_epochs=1,
        model_bytes=sum(vector.nbytes for vector in model.layout.pack(state).values()),
        shard_bytes=store.shard_bytes,
        shard_samples=store.shard_samples,
        num_shards=len(store),
    )
    return PreparedJob(job=job, training=task, terms=terms, state=state, store=store, model=model)
