"""Seeds of a learner's choices: the learner and its orchestrator must compute the same."""

from __future__ import annotations

import zlib


def round_seed(task_seed: int, round: int, learner: str) -> tuple[int, int, int]:
    """Return the seed of a learner's choices in a round; the orchestrator can repeat them."""
    return (task_seed, round, zlib.crc32(learner.encode()))


def order_seed(task_seed: int, round: int, learner: str, portion: int = 0) -> int:
    """Return the seed of the order in which a learner trains the samples of a round, portion by portion."""
    seed = round_seed(task_seed, round, learner)
    return zlib.crc32(repr((*seed, portion) if portion else seed).encode())
