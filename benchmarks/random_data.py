"""Data drawn at random, and what a job trains on it."""

from __future__ import annotations

import numpy as np

from paceline.learning.datasets import Dataset
from paceline.learning.tables import ArrayTable
from paceline.learning.training_spec import TrainingSpec
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.split.jobs import SplitJob

NUM_CLASSES = 10


def random_dataset(num_samples: int, *, side: int, num_test_samples: int) -> Dataset:
    """Draw square images, always the same ones; the first of them are the test data."""
    x = np.random.default_rng(0).integers(0, 256, (num_samples, 1, side, side), dtype=np.uint8)
    y = np.arange(num_samples, dtype=np.uint8) % NUM_CLASSES
    tables = (ArrayTable({"x": x[:count], "y": y[:count]}) for count in (num_samples, num_test_samples))
    return Dataset("random", *tables)


def task_of(job: Job | GossipJob | SplitJob, dataset: Dataset) -> TrainingSpec:
    """Make the spec of a job on such data, which may have too few samples to show all classes."""
    return TrainingSpec.of(job, dataset, num_outputs=NUM_CLASSES)
