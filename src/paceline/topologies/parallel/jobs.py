"""Jobs of the parallel topology: one that has the fleet to itself, and a pool of several that share it."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable
from typing import Annotated, ClassVar

from msgspec import Meta

from paceline import allocation
from paceline.allocation import AdaptiveDabAllocation, AllocationPolicy, MedAllocation, PoolPolicy
from paceline.allocation.base import MAX_DEADLINE_SECONDS, MAX_OVERTIME
from paceline.checks import Count, Label, NotNegative, Ratio, Seed
from paceline.errors import ConfigError
from paceline.learning.accelerators import Precision
from paceline.learning.aggregation import Aggregation, FedAvgAggregation, MeanAggregation, describe
from paceline.learning.datasets import DataSpec
from paceline.learning.early_stopping import DEFAULT_WATCH, EarlyStopping
from paceline.learning.local_model import MAX_LOCAL_EPOCHS
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.partitions import PartitionSpec
from paceline.learning.privacy import PrivacySpec
from paceline.learning.privacy.spec import MIN_MASKED, UNMASKING_PART
from paceline.learning.scores import Scores
from paceline.learning.tasks import TaskSpec
from paceline.learning.training_spec import MAX_BATCH
from paceline.topologies.base import JobSpec
from paceline.topologies.sessions import MAX_DEVICES

MAX_ROUNDS = 1_000_000
MAX_BENCHMARK_SHARDS = 1 << 12

JOB_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")


class Job(JobSpec, frozen=True, kw_only=True):
    """What is trained, on what, and by which rules.

    Attributes:
        name: name among other jobs; may stay empty where there is one.
        rounds: number of rounds.
        deadline_seconds: time limit of each round.
        overtime: how far past its deadline a round waits for updates, as a ratio of it. At 0, it closes at the deadline
            and training halts in time for that; else, it waits so long, and all that was taken is trained.
        local_epochs: passes of each learner over its shards.
        batch_size: samples per minibatch.
        precision: type in which devices compute the products of their training.
        seed: seed of everything that is drawn at random.
        min_learners: a round opens when so many are ready.
        learners_per_round: draw so many of the learners that are ready for each round, and let the others wait; None
            for all of them.
        benchmark_shards: shards that a device measures itself with.
        audit_rate: part of the updates that is trained again at the orchestrator to see whether the work was done; a
            learner that fails one is excluded.
        rolls_back: whether a round that makes the model far worse is undone, and the run goes on.
        target: ends the run once reached, such as ``accuracy >= 0.97`` or ``loss <= 0.1``.
        patience: the run ends after so many rounds without improvement of `watch`; None for never.
        watch: what has to improve, such as ``min loss`` or ``max accuracy``.
        partition: how the data is split among devices that have none of their own, where it stays on them.
        privacy: what the orchestrator may learn of each device, where data stays on them.
    """

    table: ClassVar[str] = "job"
    tables: ClassVar[tuple[str, ...]] = (
        *("task", "model", "optimizer", "data", "partition", "allocation", "aggregation", "privacy"),
    )

    deadline_seconds: Annotated[float, Meta(gt=0, le=MAX_DEADLINE_SECONDS)]
    name: Label = ""
    overtime: Annotated[float, Meta(ge=0, le=MAX_OVERTIME)] = 0.0
    rounds: Annotated[int, Meta(ge=1, le=MAX_ROUNDS)] = 10
    local_epochs: Annotated[int, Meta(ge=1, le=MAX_LOCAL_EPOCHS)] = 1
    batch_size: Annotated[int, Meta(ge=1, le=MAX_BATCH)] = 32
    precision: Precision = "float32"
    seed: Seed = 0
    min_learners: Annotated[int, Meta(ge=1, le=MAX_DEVICES)] = 1
    learners_per_round: Annotated[int, Meta(ge=1, le=MAX_DEVICES)] | None = None
    benchmark_shards: Annotated[int, Meta(ge=1, le=MAX_BENCHMARK_SHARDS)] = 8
    audit_rate: Ratio = 0.0
    rolls_back: bool = True
    target: Label | None = None
    patience: Annotated[int, Meta(ge=1, le=MAX_ROUNDS)] | None = None
    watch: Label = DEFAULT_WATCH
    task: TaskSpec = TaskSpec()
    model: ModelSpec = ModelSpec()
    optimizer: OptimizerSpec = OptimizerSpec()
    data: DataSpec = DataSpec()
    partition: PartitionSpec = PartitionSpec()
    allocation: AllocationPolicy = AdaptiveDabAllocation()
    aggregation: Aggregation = FedAvgAggregation()
    privacy: PrivacySpec = PrivacySpec()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.early_stopping()  # raises if it cannot be
        if self.allocation.decided_by == "peers":
            raise ValueError(
                f"{allocation.describe(self.allocation)['policy']} is a policy of peers, which train without an "
                "orchestrator; use one that learners or the orchestrator decide, such as adaptive-dab"
            )
        if self.data.placement == "served" and self.partition != PartitionSpec():
            raise ValueError('partition is for data that stays on the devices; set [data] placement = "local"')
        self.partition.check_task(self.task)
        if self.partition.replicas > 1:
            raise ValueError(f"replicas is {self.partition.replicas}; only peers of a gossip job hold copies")
        if self.data.placement == "local" and self.audit_rate:
            raise ValueError('placement is "local", but audit_rate is above 0: data on the devices cannot be audited')
        if self.audit_rate and self.aggregation.compression != "none":
            raise ValueError(
                f'compression is "{self.aggregation.compression}", but audit_rate is above 0: a compressed update '
                "holds what earlier ones left out, so it cannot be compared with the same work done again"
            )
        if self.data.placement == "local" and isinstance(self.allocation, PoolPolicy):
            raise ValueError(
                'placement is "local", but this policy divides shards that the orchestrator has; use another, such as '
                "adaptive-dab or csa"
            )
        if self.privacy.is_on:
            self._check_privacy()
        if self.name and not JOB_NAME.fullmatch(self.name):
            raise ValueError(
                f"name is {self.name[:80]!r}; allowed: 1 to 64 letters, digits, and . _ -, not starting with a dot"
            )

    @property
    def update_seconds(self) -> float:
        """Seconds from when a round opens until updates are due: the deadline, or less if masks are to be taken off."""
        part = UNMASKING_PART if self.privacy.secure_aggregation else 0.0
        return (1 - part) * self.deadline_seconds

    def _check_privacy(self) -> None:
        """Raise `ValueError` for what the promises of ``[privacy]`` do not go with."""
        what = "secure_aggregation is true" if self.privacy.secure_aggregation else "clip_norm is set"
        if self.data.placement != "local":
            raise ValueError(f'{what} in [privacy], but data is served to devices; set [data] placement = "local"')
        if not isinstance(self.aggregation, MeanAggregation):
            method = describe(self.aggregation)["method"]
            raise ValueError(
                f"{what} in [privacy], but method {method} needs single updates, not only their mean; use fedavg, "
                "fedprox, fedavgm, fedadam or fedyogi"
            )
        if self.aggregation.late != "drop":
            raise ValueError(f'{what} in [privacy], but late is "{self.aggregation.late}" in [aggregation]; use "drop"')
        if self.privacy.noise_multiplier and self.aggregation.weight != "equal":
            raise ValueError(
                f'noise_multiplier is set, but weight is "{self.aggregation.weight}" in [aggregation]: noise is made '
                'for updates that count alike; set weight = "equal"'
            )
        if not self.privacy.secure_aggregation:
            return
        if self.aggregation.compression != "none":
            raise ValueError(f'{what}, but compression is "{self.aggregation.compression}"; masks hide whole updates')
        least = min(self.min_learners, self.learners_per_round or self.min_learners)
        if least < MIN_MASKED:
            raise ValueError(
                f"{what}, but a round may have {least} learners; with fewer than {MIN_MASKED}, "
                f"their sum tells what is in each: set min_learners (and learners_per_round) to {MIN_MASKED} or more"
            )

    def early_stopping(self, history: Iterable[Scores] = ()) -> EarlyStopping:
        """Begin to decide whether the run ends before its last round, or go on after the rounds with these scores."""
        return EarlyStopping(self.target, self.patience, self.watch, history)


class Pool(JobSpec, frozen=True, kw_only=True):
    """Several jobs that share one fleet, and the rules by which they do.

    Attributes:
        jobs: jobs to begin with, with names that differ; learners of all of them are allocated by the pool's policy.
        allocation: decides which learner trains how much of which job.
        min_learners: the pool begins when so many are ready.
        total_budget: limit of all that is ever paid; None for no limit. The policy's own budget is for one round.
        patience_seconds: how long to wait for learners that are expected, between two rounds.
        idle_seconds: how long to wait for another job when all are over.
        moves_learners: whether learners are placed anew when jobs or learners come or go; else they stay in their jobs
            until those are over, and other jobs wait.
        max_model_bytes: size limit of models that are submitted.
        max_step_bytes: limit of the memory that a training step of a submitted job takes, as estimated.
        seed: seed of what the pool itself draws at random.
    """

    table: ClassVar[str] = "pool"
    tables: ClassVar[tuple[str, ...]] = ("allocation",)
    nested: ClassVar[str] = "jobs"

    jobs: tuple[Job, ...] = ()
    allocation: PoolPolicy = MedAllocation()
    min_learners: Count = 1
    total_budget: NotNegative | None = None
    patience_seconds: NotNegative = 10.0
    idle_seconds: NotNegative = 0.0
    moves_learners: bool = True
    max_model_bytes: Annotated[int, Meta(ge=1, le=1 << 34)] = 1 << 28
    max_step_bytes: Annotated[int, Meta(ge=1, le=1 << 40)] = 1 << 32
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, count in collections.Counter(job.name for job in self.jobs).items():
            if count > 1 or not name:
                raise ValueError(f"{count} jobs are called {name!r}; in a pool each needs a name of its own")
        for job in self.jobs:
            self.check_job(job)

    def check_job(self, job: Job) -> None:
        """Raise `ValueError` for a job that no pool can train."""
        if job.data.placement == "local":
            raise ValueError(f'job {job.name}: [data] placement is "local"; jobs of a pool are "served"')
        if job.learners_per_round is not None:
            raise ValueError(f"job {job.name}: learners_per_round is for a job alone; a pool places its learners")

    def check_size(self, model_bytes: int) -> None:
        """Raise `ConfigError` for a model that is too large to be submitted."""
        if model_bytes > self.max_model_bytes:
            raise ConfigError(f"the model has {model_bytes} bytes; this pool allows {self.max_model_bytes}")

    def check_memory(self, step_bytes: int) -> None:
        """Raise `ConfigError` for a job whose training takes too much memory to be submitted."""
        if step_bytes > self.max_step_bytes:
            raise ConfigError(
                f"a training step would take about {step_bytes} bytes of a device's memory; this pool allows "
                f"{self.max_step_bytes}: use a smaller batch_size or model"
            )
