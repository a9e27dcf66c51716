"""Runs inside experiments: a job on a fleet, and what the models are worth that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
import torch

from paceline.events import Event
from paceline.fleets.base import Fleet, JobLaunch, PoolLaunch
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import datasets, models
from paceline.learning.averaging import State
from paceline.learning.datasets import DataSpec, Normalisation
from paceline.learning.training import normalised
from paceline.topologies.multitask import Admitted, PoolSpec
from paceline.topologies.parallel import Job, Plan, make_plan

_CHUNK_SAMPLES = 1000
E = TypeVar("E", bound=Event)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a run gave.

    Attributes:
        events: all that happened.
        states: the parameters before the first round and after each.
    """

    events: list[Event]
    states: list[State]

    def told(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


@dataclass(frozen=True, kw_only=True)
class PoolTrial:
    """What a run of several jobs gave.

    Attributes:
        events: all that happened in the pool, and what learners told.
        jobs: what happened in each job, by its name.
    """

    events: list[Event]
    jobs: dict[str, list[Event]]

    def told(self, kind: type[E], job: str | None = None) -> list[E]:
        """The events of one kind, in order; those of the pool, if no job is named."""
        return [event for event in (self.events if job is None else self.jobs[job]) if isinstance(event, kind)]


class Worth(NamedTuple):
    """What a model is worth on the test data, each a mean over its samples.

    Attributes:
        loss: that of the job.
        accuracy: how many answers are right, as a ratio.
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
    """`play` on virtual time; if it is time only, nothing is learned."""
    return play(job, VirtualFleet(devices, is_time_only=is_time_only), normalisation=normalisation)


def play(job: Job, fleet: Fleet, *, normalisation: Normalisation | None = None) -> Trial:
    """Run a job, and keep nothing on disk. Rounds are not evaluated; see `assess`.

    Args:
        normalisation: how models are fed, if not as in any other run.
    """
    plan, state = make_plan(job)
    task = plan.task if normalisation is None else msgspec.structs.replace(plan.task, normalisation=normalisation)
    events: list[Event] = []
    states = [state]

    def save(round: int, state: State) -> None:
        states.append({name: tensor.clone() for name, tensor in state.items()})

    fleet.run(JobLaunch(plan=replace(plan, task=task, evaluate=None), state=state, emit=events.append, save=save))
    return Trial(events=events, states=states)


def play_pool(spec: PoolSpec, plans: Sequence[tuple[Plan, State]], fleet: Fleet) -> PoolTrial:
    """Run several jobs over one pool of learners, and keep nothing on disk.

    Args:
        plans: as `make_plan` gives them, of jobs with names. Their policies are replaced by that of the pool, so that
            they can be used again with another.
    """
    trial = PoolTrial(events=[], jobs={})

    def let_in(plan: Plan, state: State) -> Admitted:
        told = trial.jobs.setdefault(plan.job.name, [])
        pooled = msgspec.structs.replace(plan.job, allocation=spec.allocation)
        return Admitted(plan=replace(plan, job=pooled), state=state, emit=told.append)

    def admit(tables: dict[str, Any]) -> Admitted:
        raise ValueError("this pool takes no other jobs")

    jobs = [let_in(plan, state) for plan, state in plans]
    fleet.run(PoolLaunch(emit=trial.events.append, spec=spec, jobs=jobs, admit=admit))
    return trial


def assess(
    job: Job, states: Sequence[Mapping[str, torch.Tensor]], *, normalisation: Normalisation | None = None
) -> list[Worth]:
    """What each of these parameters of the job's model is worth on its test data; normalised as in `play`."""
    dataset = datasets.load(job.data)
    model = models.build(job.model, dataset.input_shape, dataset.num_classes, allowed=None).eval()
    x = normalised(dataset.x_test, normalisation or dataset.normalisation)
    y = torch.from_numpy(dataset.y_test.astype(np.int64))
    loss_of = models.loss_function(job.model)
    worths = []
    for state in states:
        model.load_state_dict(state)
        with torch.inference_mode():
            logits = torch.cat([model(part) for part in torch.split(x, _CHUNK_SAMPLES)])
        right = torch.softmax(logits, dim=1)[torch.arange(len(y)), y]
        is_right = (logits.argmax(1) == y).float()
        worths.append(Worth(float(loss_of(logits, y)), float(is_right.mean()), float(right.mean())))
    return worths


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
    chosen = random.permutation(len(whole.y_train))[:num_samples]
    tests = random.permutation(len(whole.y_test))[:num_test_samples]
    np.savez(
        path,
        x_train=whole.x_train[chosen].astype(dtype or whole.x_train.dtype, copy=False),
        y_train=whole.y_train[chosen],
        x_test=whole.x_test[tests].astype(dtype or whole.x_test.dtype, copy=False),
        y_test=whole.y_test[tests],
    )
    return DataSpec(path=str(path), shard_size=max(1, data.shard_size * num_samples // len(whole.y_train)))
