"""The parallel topology: an orchestrator serves data and averages, learners train what they can by the deadline."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from paceline import allocation
from paceline.checks import build
from paceline.config import table_named
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.learning.datasets import importable
from paceline.learning.privacy import PrivacySpec
from paceline.learning.shards import Shard
from paceline.learning.training_spec import TrainingSpec
from paceline.topologies.base import (
    DeviceOptions,
    Environment,
    Host,
    JobSpec,
    Load,
    Member,
    Node,
    Plan,
    Recovered,
    Topology,
    import_paths_of,
)
from paceline.topologies.consent import Disclosure
from paceline.topologies.parallel import resuming
from paceline.topologies.parallel.disclosures import disclosures_of
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.learner import Learner
from paceline.topologies.parallel.own_data import cut, own_data_of
from paceline.topologies.parallel.pool import JobPool
from paceline.topologies.parallel.pool_report import PoolReporting
from paceline.topologies.parallel.pool_resuming import NEW, KeptPool, recover_pool, resumed_jobs
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from paceline.topologies.parallel.progress import LearnerProgress
from paceline.topologies.parallel.report import RunReporting
from paceline.topologies.parallel.single_job import SingleJob
from paceline.topologies.reporting.base import Progress, Reporting


class Parallel(Topology[JobSpec]):
    """Learners around an orchestrator, with one job or several."""

    name = "parallel"
    kinds: ClassVar[Mapping[type[JobSpec], Reporting]] = {Job: RunReporting(), Pool: PoolReporting()}
    used_options = ("max_shards", "price", "data", "part", "allowed", "patience_seconds")

    def prepare(self, job: JobSpec) -> Plan[Any]:
        if isinstance(job, Pool):
            pooled = [msgspec.structs.replace(one, allocation=job.allocation) for one in job.jobs]
            return PoolPlan(job, [prepare_job(one) for one in pooled])
        assert isinstance(job, Job)
        return JobPlan(prepare_job(job))

    def join(self, node: Node) -> Member:
        return Learner(node, own_data_of(node.options))

    def disclosures(self, tables: Mapping[str, Any], options: DeviceOptions) -> Sequence[Disclosure]:
        source = "the job there"
        policy = allocation.from_config(table_named(tables, "allocation", source), options.allowed)
        has_own_data = table_named(tables, "data", source).get("placement") == "local"
        privacy = _privacy_of(tables, source)
        return disclosures_of(policy, options, privacy, has_own_data=has_own_data)

    def device_progress(self) -> Progress:
        return LearnerProgress()

    def events_to_keep(self, events: Sequence[Event]) -> list[Event]:
        return resuming.events_to_keep(events)

    def recover(self, job: JobSpec, events: Sequence[Event], load: Load) -> Recovered:
        if isinstance(job, Pool):
            return recover_pool(events, load)
        assert isinstance(job, Job)
        return resuming.recover(job, events, load)

    def can_resume(self, job: JobSpec) -> bool:
        return isinstance(job, Job | Pool)

    def resume(self, job: JobSpec, recovered: Recovered, load: Load) -> Plan[Any]:
        if isinstance(job, Pool):
            return PoolPlan(job, *resumed_jobs(job, recovered, load))
        assert isinstance(job, Job)
        last = resuming.last_closed(recovered.events)
        if not last:
            return JobPlan(prepare_job(job))
        if recovered.is_over:
            resuming.check_has_more(job, last, load)
        prepared = resuming.prepare_resumed(job, last, load)
        return JobPlan(prepared, first_round=last + 1)


class JobPlan(Plan[Job]):
    """One job made ready to run.

    Attributes:
        first_round: later than 1 for a run that goes on.
    """

    def __init__(self, prepared: PreparedJob, first_round: int = 1) -> None:
        job, largest = prepared.job, max(prepared.largest_bytes, prepared.base_bytes)
        super().__init__(TOPOLOGY, job, min_devices=job.min_learners, max_message_bytes=largest, seed=job.seed)
        self.prepared = prepared
        self.first_round = first_round
        self._parts = functools.cache(lambda count: cut(job.data, count, job.partition, job.seed))

    @property
    def public_tables(self) -> dict[str, Any]:
        policy = allocation.describe(self.job.allocation)
        privacy = msgspec.to_builtins(self.job.privacy)
        return {"allocation": policy, "data": {"placement": self.job.data.placement}, "privacy": privacy}

    def benchmark_work(self, num_shards: int | None = None) -> tuple[TrainingSpec, Sequence[Shard]]:
        if self.prepared.store is None:
            raise ConfigError("[data] placement is local, so there are no shards to measure with; use served")
        wanted = num_shards or self.job.benchmark_shards
        return self.prepared.training, self.prepared.draw(min(wanted, self.prepared.num_served_shards))

    def device_options(self, number: int, count: int) -> Sequence[str]:
        if self.prepared.store is not None:
            return ()
        self._parts(count)  # raises now if the data cannot be split
        stored_at = importable(self.job.data)
        return ("--data", f"{number}/{count}" if stored_at is None else f"{stored_at}:{number}/{count}")

    def host(self, env: Environment) -> Host:
        return SingleJob(self.prepared, env, self.first_round)

    def member(self, node: Node, host: Host | None) -> Member:
        if self.prepared.store is not None:
            return Learner(node)
        own = self._parts(node.num_devices)[node.number]
        return Learner(node, lambda offer: own)


class PoolPlan(Plan[Pool]):
    """Several jobs made ready to share a fleet.

    Args:
        kept: what is known of a pool that goes on.
    """

    def __init__(self, pool: Pool, jobs: Sequence[PreparedJob], kept: KeptPool = NEW) -> None:
        largest = max([pool.max_model_bytes, *(prepared.largest_bytes for prepared in jobs)])
        super().__init__(TOPOLOGY, pool, min_devices=pool.min_learners, max_message_bytes=largest, seed=pool.seed)
        self.jobs = jobs
        self._kept = kept

    @property
    def job_names(self) -> Sequence[str]:
        return [prepared.job.name for prepared in self.jobs]

    @property
    def public_tables(self) -> dict[str, Any]:
        return {"allocation": allocation.describe(self.job.allocation)}

    @property
    def import_paths(self) -> Sequence[str]:
        return sorted({path for prepared in self.jobs for path in import_paths_of(prepared.job)})

    def host(self, env: Environment) -> Host:
        return JobPool(self.job, self.jobs, env, self._kept)

    def member(self, node: Node, host: Host | None) -> Member:
        return Learner(node)


def _privacy_of(tables: Mapping[str, Any], source: str) -> PrivacySpec:
    try:
        privacy: PrivacySpec = build(PrivacySpec, table_named(tables, "privacy", source))
    except ValueError as error:
        raise ConfigError(f"{source}: [privacy]: {error}") from None
    return privacy


TOPOLOGY = Parallel()
