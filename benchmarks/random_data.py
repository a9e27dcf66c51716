"""Data drawn at random, and the task that a job makes of it."""

from __future__ import annotations

import numpy as np

from paceline.learning.datasets import Dataset
from paceline.learning.tables import ArrayTable
from paceline.learning.tasks import Task
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.split.jobs import SplitJob

NUM_CLASSES = 10


def random_dataset(num_samples: int, *, side: int, num_test_samples: int) -> Dataset:
    """Draw square images, always the same ones; the first of them are the test data."""
    x = np.random.default_rng(0).integers(0, 256, (num_samples, 1, side, side), dtype=np.uint8)
    y = np.arange(num_samples, dtype=np.uint8) % NUM_CLASSES
    test = ArrayTable({"x": x[:num_test_samples], "y": y[:num_test_samples]})
    return Dataset("random", ArrayTable({"x": x, "y": y}), test)


def task_of(job: GossipJob | SplitJob, dataset: Dataset) -> Task:
    """Build the task of a job on such data, which may have too few samples to show all classes."""
    return Task(
        model=job.model,
        optimizer=job.optimizer,
        normalisation=dataset.normalisation,
        input_shape=dataset.input_shape,
        num_classes=NUM_CLASSES,
        batch_size=job.batch_size,
    )
