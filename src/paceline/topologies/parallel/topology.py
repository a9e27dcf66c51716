"""The parallel topology: an orchestrator serves data and averages, learners train what they can by the deadline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
import numpy as np
from torch import nn

from paceline.errors import ConfigError
from paceline.events import Event
from paceline.learning import datasets, models
from paceline.learning.averaging import State
from paceline.learning.shards import Array, Shard
from paceline.learning.tasks import Task
from paceline.topologies.base import Environment, Host, JobSpec, Member, Node, Plan, Topology
from paceline.topologies.parallel.events import RoundClosed
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.learner import Learner
from paceline.topologies.parallel.pool import JobPool
from paceline.topologies.parallel.pool_report import PoolReporting
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from paceline.topologies.parallel.progress import LearnerProgress
from paceline.topologies.parallel.report import RunReporting
from paceline.topologies.parallel.single_job import SingleJob
from paceline.topologies.reporting.base import Progress, Reporting


class Parallel(Topology[JobSpec]):
    """Learners around an orchestrator, with one job or several."""

    name = "parallel"
    kinds: ClassVar[Mapping[type[JobSpec], Reporting]] = {Job: RunReporting(), Pool: PoolReporting()}

    def prepare(self, job: JobSpec) -> Plan[Any]:
        if isinstance(job, Pool):
            pooled = [msgspec.structs.replace(one, allocation=job.allocation) for one in job.jobs]
            return PoolPlan(job, [prepare_job(one) for one in pooled])
        assert isinstance(job, Job)
        return JobPlan(prepare_job(job))

    def join(self, node: Node) -> Member:
        data = node.options.data
        return Learner(node, None if data is None else datasets.load_local(data))

    def device_progress(self) -> Progress:
        return LearnerProgress()

    def events_to_keep(self, events: Sequence[Event]) -> list[Event]:
        """Keep the events of closed rounds: all up to the last `RoundClosed`, and those after it that are of such.

        All else after it is dropped: the round that was open happens again, learners join again, and an end is none.
        """
        closings = [(index, event.round) for index, event in enumerate(events) if isinstance(event, RoundClosed)]
        if not closings:
            return []
        last, last_round = closings[-1]
        return [*events[: last + 1], *(e for e in events[last + 1 :] if 1 <= getattr(e, "round", 0) <= last_round)]

    def resume(self, job: JobSpec, events: Sequence[Event], load: Callable[[int], State]) -> Plan[Any]:
        if not isinstance(job, Job):
            raise ConfigError("a pool cannot be resumed; the checkpoints of its jobs are kept")
        closed = [event for event in events if isinstance(event, RoundClosed)]
        last = closed[-1].round if closed else 0
        if last >= job.rounds:
            raise ConfigError(f"all {job.rounds} rounds are done; there is nothing to resume")
        if closed and job.is_reached_by(closed[-1].accuracy):
            raise ConfigError(f"target_accuracy, {job.target_accuracy}, is reached; there is nothing to resume")
        prepared = prepare_job(job)
        return JobPlan(replace(prepared, state=load(last)) if last else prepared, first_round=last + 1)


class JobPlan(Plan[Job]):
    """One job made ready to run.

    Attributes:
        first_round: later than 1 for a run that goes on.
    """

    def __init__(self, prepared: PreparedJob, first_round: int = 1) -> None:
        job, largest = prepared.job, prepared.terms.model_bytes
        super().__init__(TOPOLOGY, job, min_devices=job.min_learners, max_message_bytes=largest, seed=job.seed)
        self.prepared = prepared
        self.first_round = first_round
        self._parts = functools.cache(self._cut)

    def benchmark_work(self, num_shards: int | None = None) -> tuple[Task, Sequence[Shard]]:
        if self.prepared.store is None:
            raise ConfigError("[data] placement is local, so there are no shards to measure with; use served")
        wanted = num_shards or self.job.benchmark_shards
        return self.prepared.task, self.prepared.draw(min(wanted, self.prepared.num_served_shards))

    def host(self, env: Environment) -> Host:
        return SingleJob(self.prepared, env, self.first_round)

    def member(self, node: Node, host: Host | None) -> Member:
        own = self._parts(node.num_devices)[node.number] if self.prepared.store is None else None
        return Learner(node, own)

    def _cut(self, num_devices: int) -> Sequence[tuple[Array, Array]]:
        """Give each device an equal part of the training data, drawn at random, where data stays on the devices."""
        dataset = datasets.load(self.job.data)
        order = np.random.default_rng(self.job.seed).permutation(len(dataset.y_train))
        if len(order) < num_devices:
            raise ConfigError(f"{len(order)} samples of {dataset.name} are too few for {num_devices} devices")
        return [(dataset.x_train[part], dataset.y_train[part]) for part in np.array_split(order, num_devices)]

    def model(self, state: State, events: Iterable[Event]) -> nn.Module:
        task = self.prepared.task
        model = models.build(task.model, task.input_shape, task.num_classes, allowed=None)
        model.load_state_dict(state)
        return model


class PoolPlan(Plan[Pool]):
    """Several jobs made ready to share a fleet."""

    def __init__(self, pool: Pool, jobs: Sequence[PreparedJob]) -> None:
        largest = max([pool.max_model_bytes, *(prepared.terms.model_bytes for prepared in jobs)])
        super().__init__(TOPOLOGY, pool, min_devices=pool.min_learners, max_message_bytes=largest, seed=pool.seed)
        self.jobs = jobs

    @property
    def import_paths(self) -> Sequence[str]:
        paths = [prepared.job.model.import_path for prepared in self.jobs]
        return [path for path in paths if path is not None]

    def host(self, env: Environment) -> Host:
        return JobPool(self.job, self.jobs, env)

    def member(self, node: Node, host: Host | None) -> Member:
        return Learner(node)


TOPOLOGY = Parallel()
