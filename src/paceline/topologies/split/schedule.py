"""What the nodes of a split job do in an epoch, in order: the same on all of them."""

from __future__ import annotations

import math

from paceline.learning.shards import minibatch_sizes
from paceline.topologies.split.messages import SplitTerms, SyncPoint

PART_SAMPLES = 256
"""Samples that are judged, or handed over as images, at one sync point."""


def schedule_of(terms: SplitTerms, epoch: int) -> list[SyncPoint]:
    """Return the sync points of an epoch; in the one after the last, the trunk takes what was learned."""
    if terms.scheme == "images":
        num_parts = num_parts_of(terms.num_samples) + num_parts_of(terms.num_test_samples)
        return _points("images", num_parts if epoch == terms.first_epoch else 0)
    if epoch > terms.epochs:
        return _points("backup", 1)
    if terms.scheme == "gfl":
        trained = _points("average", 1)
        tested = _points("test", 1)
    else:
        trained = _points("step", len(minibatch_sizes(terms.num_samples, terms.training.batch_size)))
        tested = _points("test", num_parts_of(terms.num_test_samples))
    is_copied = terms.backup_epochs > 0 and epoch % terms.backup_epochs == 0
    return [*trained, *(tested if is_tested(terms, epoch) else ()), *_points("backup", int(is_copied))]


def is_tested(terms: SplitTerms, epoch: int) -> bool:
    """Return whether what was learned is tried on the test data after an epoch."""
    return epoch % terms.test_epochs == 0 or epoch == terms.epochs


def num_parts_of(num_samples: int) -> int:
    """Count the parts in which so many samples are judged, or handed over."""
    return math.ceil(num_samples / PART_SAMPLES)


def part(number: int) -> slice:
    """Return the samples of a part."""
    return slice(number * PART_SAMPLES, (number + 1) * PART_SAMPLES)


def _points(phase: str, count: int) -> list[SyncPoint]:
    return [SyncPoint(phase, number) for number in range(count)]  # type: ignore[arg-type]
