"""A gossip job made ready to run: its data loaded, its model built."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.accelerators import Accelerator
from paceline.learning.averaging import State
from paceline.learning.datasets import Dataset
from paceline.learning.local_model import LocalModel
from paceline.learning.partitions import held_by, split
from paceline.learning.shards import Shard
from paceline.learning.tasks import Task
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.peer_data import Holding


@dataclass(frozen=True, eq=False)
class PreparedJob:
    """A gossip job with all that a peer needs to take part in it.

    Attributes:
        model: evaluates; peers train their own.
    """

    job: GossipJob
    task: Task
    dataset: Dataset
    model: LocalModel

    @functools.cached_property
    def model_bytes(self) -> int:
        """Bytes of the parameters as sent."""
        return sum(vector.nbytes for vector in self.model.parameters().values())

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the model, buffers included."""
        return sum(vector.numel() for vector in self.model.parameters().values())

    @functools.lru_cache(maxsize=1)  # noqa: B019  (one job, one fleet)
    def holdings(self, num_parts: int) -> Sequence[Holding]:
        """Split the training data among so many peers; raises `ConfigError` if there is too little of it."""
        x, y, partition = self.dataset.x_train, self.dataset.y_train, self.job.partition
        parts = split(self.dataset, self.job.data, num_parts, partition, self.job.seed)
        shards = [Shard(x[part], y[part]) for part in parts]
        held = [held_by(number, num_parts, partition.replicas) for number in range(num_parts)]
        return [Holding(shards[own], own, {copy: shards[copy] for copy in copies}) for own, *copies in held]

    def own_holding(self, shard: Shard) -> Holding:
        """Make the holding of a device with data of its own; raises `ConfigError` if that does not fit this job."""
        task = self.task
        if shard.x.shape[1:] != task.input_shape or int(shard.y.max(initial=0)) >= task.num_classes:
            raise ConfigError(
                f"the data has samples of shape {shard.x.shape[1:]} and labels up to {int(shard.y.max(initial=0))}; "
                f"the job wants {task.input_shape} and labels below {task.num_classes}"
            )
        return Holding(shard)

    def state(self, parameters: Vectors) -> State:
        """Return parameters by name."""
        return self.model.layout.unpack(parameters)

    def evaluate_on(self, accelerator: Accelerator) -> None:
        """Move the model that evaluates."""
        self.model.move_to(accelerator)

    def evaluate(self, state: State, num_samples: int = 0) -> tuple[float, float]:
        """Return loss and accuracy on so many of the test samples, or on all for 0."""
        most = num_samples or len(self.dataset.y_test)
        return self.model.evaluate(state, self.dataset.x_test[:most], self.dataset.y_test[:most])


def prepare_job(job: GossipJob) -> PreparedJob:
    """Load a job's data and build its model."""
    dataset = datasets.load(job.data)
    task = Task.of(job, dataset)
    return PreparedJob(job, task, dataset, LocalModel(task, allowed=None))
