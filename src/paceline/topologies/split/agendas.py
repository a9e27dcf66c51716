"""What the nodes of a split job do in an epoch, in order: the same on all of them."""

from __future__ import annotations

import math

from paceline.learning.shards import minibatch_sizes
from paceline.topologies.split.messages import Meeting, Terms

TEST_SAMPLES = 256
"""That are judged, or handed over as images, at one meeting."""


def agenda(terms: Terms, epoch: int) -> list[Meeting]:
    """The meetings of an epoch; the one after the last is for the trunk to take what was learned."""
    if terms.scheme == "images":
        num_parts = num_parts_of(terms.num_samples) + num_parts_of(terms.num_test_samples)
        return _meetings("images", num_parts if epoch == 1 else 0)
    if epoch > terms.epochs:
        return _meetings("backup", 1)
    if terms.scheme == "gfl":
        trained = _meetings("average", 1)
        tested = _meetings("test", 1)
    else:
        trained = _meetings("step", len(minibatch_sizes(terms.num_samples, terms.task.batch_size)))
        tested = _meetings("test", num_parts_of(terms.num_test_samples))
    is_copied = terms.backup_epochs > 0 and epoch % terms.backup_epochs == 0
    return [*trained, *(tested if is_tested(terms, epoch) else ()), *_meetings("backup", int(is_copied))]


def is_tested(terms: Terms, epoch: int) -> bool:
    """Whether what was learned is tried on the test data after an epoch."""
    return epoch % terms.test_epochs == 0 or epoch == terms.epochs


def num_parts_of(num_samples: int) -> int:
    """In how many parts so many samples are judged, or handed over."""
    return math.ceil(num_samples / TEST_SAMPLES)


def part(number: int) -> slice:
    """The samples of a part."""
    return slice(number * TEST_SAMPLES, (number + 1) * TEST_SAMPLES)


def _meetings(phase: str, count: int) -> list[Meeting]:
    return [Meeting(phase, number) for number in range(count)]  # type: ignore[arg-type]
