"""A gossip job made ready to run: its data loaded, its model built."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.accelerators import Accelerator
from paceline.learning.averaging import State
from paceline.learning.datasets import Dataset
from paceline.learning.local_model import LocalModel
from paceline.learning.partitions import held_by, split
from paceline.learning.scores import Scores
from paceline.learning.starts import make_model
from paceline.learning.tables import Table
from paceline.learning.tasks.classification import Classification
from paceline.learning.trainers import Trainer
from paceline.learning.training_spec import TrainingSpec, fitting
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.peer_data import Holding
from paceline.topologies.gossip.tables import GossipTables
from paceline.topologies.reporting.shared import check_metric_names


@dataclass(frozen=True, eq=False)
class PreparedJob:
    """A gossip job with all that a peer needs to take part in it.

    Attributes:
        model: evaluates; peers train their own.
        start: parameters to start from, whether they travel or not; None for those that peers make by themselves.
    """

    job: GossipJob
    training: TrainingSpec
    dataset: Dataset
    model: LocalModel
    start: State | None = None

    @functools.cached_property
    def model_bytes(self) -> int:
        """Bytes of the parameters as sent."""
        return sum(vector.nbytes for vector in self.model.parameters().values())

    @property
    def base(self) -> str:
        """Digest of what of the model does not travel; empty if all does."""
        return self.training.base

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the model, buffers included."""
        return sum(vector.numel() for vector in self.model.parameters().values())

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Metrics that models are evaluated by."""
        return self.model.metric_names

    @functools.lru_cache(maxsize=1)  # noqa: B019  (one job, one fleet)
    def holdings(self, num_parts: int) -> Sequence[Holding]:
        """Split the training data among so many peers; raises `ConfigError` if there is too little of it."""
        partition = self.job.partition
        parts = split(self.dataset, self.job.data, num_parts, partition, self.job.seed)
        shards = [self.dataset.train.take(part) for part in parts]
        held = [held_by(number, num_parts, partition.replicas) for number in range(num_parts)]
        return [Holding(shards[own], own, {copy: shards[copy] for copy in copies}) for own, *copies in held]

    def own_holding(self, table: Table) -> Holding:
        """Make the holding of a device with data of its own; raises `ConfigError` if that does not fit this job."""
        return Holding(fitting(table, self.training).take(slice(None)))

    def state(self, parameters: Vectors) -> State:
        """Return parameters by name; those that do not travel are as at the start."""
        return {**(self.start or {}), **self.model.layout.unpack(parameters)}

    def begin(self, trainer: Trainer) -> Vectors:
        """Give a peer's trainer what does not travel, and return the parameters to start from."""
        if not trainer.has_base:
            trainer.load_base(self.model.base())
        if self.start is None:
            return {kind: vector.clone() for kind, vector in trainer.initial_parameters().items()}
        return self.model.layout.pack(self.start)

    def evaluate_on(self, accelerator: Accelerator) -> None:
        """Move the model that evaluates."""
        self.model.move_to(accelerator)

    def evaluate(self, state: State, num_samples: int = 0) -> Scores:
        """Return how good a model is on so many of the test samples, or on all for 0."""
        test = self.dataset.test
        return self.model.evaluate(state, test.take(slice(num_samples)) if num_samples else test)


def prepare_job(job: GossipJob) -> PreparedJob:
    """Load a job's data and build its model."""
    dataset = datasets.load(job.data)
    model = make_model(job, dataset, exchange=job.sends, rounds=job.epochs)
    check_metric_names(model.metric_names, GossipTables({}).tables())
    job.early_stopping().check(model.metric_names)
    if job.points is not None:
        _check_points(model.spec)
    return PreparedJob(job, model.spec, dataset, model, model.state())


def _check_points(spec: TrainingSpec) -> None:
    """Raise `ConfigError` for samples that have no aggregated points, which are means of samples of one class."""
    described = ", ".join(f"{column.name}: {column.dtype} of shape {column.shape}" for column in spec.columns)
    label, task = spec.columns[-1], spec.task
    has_classes = task.built_in in (None, Classification) and not label.shape and np.dtype(label.dtype).kind in "biu"
    if not has_classes:
        what = f"a task of kind {task.kind!r}" if task.import_path is None else f"task {task.import_path!r}"
        raise ConfigError(f"[points] are of samples of one class, and {what} has none in {described}; leave it out")
    if spec.structure != "tuple" or len(spec.columns) != 2 or spec.normalisation is None:
        raise ConfigError(
            f"[points] are means of images or of real numbers, in pairs with a class; samples are {described}: leave "
            "it out"
        )
