"""Runs inside experiments: a job on a fleet, its events, and the scores of the models that it gives."""

from __future__ import annotations

import contextlib
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
import torch

from paceline.events import Emit, Event
from paceline.fleets.base import Fleet
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import datasets
from paceline.learning.averaging import State
from paceline.learning.datasets import Dataset, DataSpec
from paceline.learning.local_model import LocalModel
from paceline.learning.preprocessing import Normalisation
from paceline.learning.saved_models import SavedModel
from paceline.learning.training_spec import TrainingSpec
from paceline.topologies.base import Environment, JobSpec, Plan, Save
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from paceline.topologies.parallel.topology import JobPlan, PoolPlan

_CHUNK_SAMPLES = 1000
E = TypeVar("E", bound=Event)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is kept of one run.

    Attributes:
        events: in order.
        states: models that were saved, in order; of one job, the one before the first round, too.
        jobs: the same of each job of a pool, by its name.
    """

    events: list[Event] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    jobs: dict[str, Trial] = field(default_factory=dict)

    def events_of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def save(
        self, key: int | str, state: State, model: SavedModel | None = None, notes: Mapping[str, str] | None = None
    ) -> None:
        """Keep a model."""
        self.states.append({name: tensor.clone() for name, tensor in state.items()})


class Scores(NamedTuple):
    """Scores of a model on the test data, each a mean over its samples.

    Attributes:
        loss: the job's loss.
        accuracy: ratio of right answers.
        confidence: the probability that the model gives the right answer, from 0 to 1.
    """

    loss: float
    accuracy: float
    confidence: float


def simulate(
    job: Job,
    devices: Sequence[VirtualDevice],
    *,
    is_time_only: bool = False,
    normalisation: Normalisation | None = None,
) -> Trial:
    """Run `play_job` on virtual time; if it is time only, nothing is learned."""
    return play_job(job, VirtualFleet(devices, is_time_only=is_time_only), normalisation=normalisation)


def play_job(job: Job, fleet: Fleet, *, normalisation: Normalisation | None = None) -> Trial:
    """Run a job. Rounds are not evaluated; see `assess`.

    Args:
        normalisation: how models are fed, if not as in any other run.
    """
    prepared = prepare_job(job)
    if normalisation is not None:
        task = msgspec.structs.replace(prepared.training, normalisation=normalisation)
        model = LocalModel(task, allowed=None)
        prepared = replace(prepared, training=task, model=model, state=model.state())
    trial = play(JobPlan(replace(prepared, evaluate=None)), fleet)
    return replace(trial, states=[prepared.state, *trial.states])


def play_pool(pool: Pool, jobs: Sequence[PreparedJob], fleet: Fleet) -> Trial:
    """Run several jobs over one pool of learners.

    Args:
        jobs: with names. Their policies are replaced by that of the pool, so that they can be used again with another.
    """
    pooled = [replace(one, job=msgspec.structs.replace(one.job, allocation=pool.allocation)) for one in jobs]
    return play(PoolPlan(pool, pooled), fleet)


def play(plan: Plan[Any], fleet: Fleet, watch: Emit = lambda event: None) -> Trial:
    """Carry out a plan, and keep nothing on disk; `watch` receives each event when it happens."""
    trial = Trial()

    def emit(event: Event) -> None:
        trial.events.append(event)
        watch(event)

    def open_nested(job: JobSpec) -> tuple[Emit, Save]:
        assert isinstance(job, Job)
        own = trial.jobs[job.name] = Trial()
        return own.events.append, own.save

    fleet.run(plan, Environment(emit=emit, save=trial.save, open_nested=open_nested))
    return trial


def assess(job: Job, states: Sequence[Mapping[str, torch.Tensor]]) -> list[Scores]:
    """Score each of these models of a job on its test data; each is fed as it was trained."""
    dataset = datasets.load(job.data)
    model = LocalModel(TrainingSpec.of(job, dataset), allowed=None)
    x, y = map(torch.from_numpy, dataset.test.take(slice(None)))
    scores = []
    for state in states:
        loss, metrics = model.evaluate(state, dataset.test)
        with torch.inference_mode():
            logits = torch.cat([model.module(part) for part in torch.split(x, _CHUNK_SAMPLES)])
        right = torch.softmax(logits, dim=1)[torch.arange(len(y)), y.long()]
        scores.append(Scores(loss, metrics["accuracy"], float(right.mean())))
    return scores


def checksum(dataset: Dataset) -> int:
    """Sum up the inputs of a dataset, to see whether two parts of it are the same."""
    return zlib.crc32(b"".join(table.take(slice(None)).x.tobytes() for table in (dataset.train, dataset.test)))


@contextlib.contextmanager
def drawn_part(data: DataSpec, **options: Any) -> Iterator[DataSpec]:
    """Keep a part of a dataset in a temporary file while the block runs; options as of `write_part`."""
    with tempfile.TemporaryDirectory() as folder:
        yield write_part(data, Path(folder) / "part.npz", **options)


def write_part(
    data: DataSpec,
    path: Path,
    *,
    num_samples: int,
    num_test_samples: int | None = None,
    seed: int = 0,
    dtype: Literal["float32"] | None = None,
) -> DataSpec:
    """Write a part of a dataset, drawn at random, to an .npz file.

    Args:
        num_samples: to train on.
        num_test_samples: None for all.
        dtype: of the samples; None for that of the dataset, which is a byte for a pixel.

    Returns:
        How a job names it, in as many shards as the whole.
    """
    whole, random = datasets.load(data), np.random.default_rng(seed)
    train = whole.train.take(random.permutation(len(whole.train))[:num_samples])
    test = whole.test.take(random.permutation(len(whole.test))[:num_test_samples])
    np.savez(
        path,
        x_train=train.x.astype(dtype or train.x.dtype, copy=False),
        y_train=train.y,
        x_test=test.x.astype(dtype or test.x.dtype, copy=False),
        y_test=test.y,
    )
    return DataSpec(path=str(path), shard_size=max(1, data.shard_size * num_samples // len(whole.train)))
