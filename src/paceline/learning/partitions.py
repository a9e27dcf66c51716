"""Partitions of training data among peers that each hold their own."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np

from paceline.checks import Count, Positive, check_fields
from paceline.errors import ConfigError
from paceline.learning.shards import Array

_MIN_SAMPLES = 8  # in each part, however uneven they are: enough for a minibatch


class PartitionSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Split of training data among peers: the ``[partition]`` table of a job; `ValueError` for a value out of range.

    Attributes:
        kind: ``iid``: equal parts, drawn at random; ``dirichlet``: of each class, the peers get shares drawn from a
            Dirichlet distribution, so that parts differ in size and in classes.
        alpha: its parameter: 100 is almost even; at 0.1, most of a peer's samples are of one or two classes.
        replicas: number of peers that hold each part: its owner, and the next ones in case that one fails.
    """

    kind: Literal["iid", "dirichlet"] = "iid"
    alpha: Positive = 1.0
    replicas: Count = 1

    def __post_init__(self) -> None:
        check_fields(self)


def parts(y: Array, num_parts: int, spec: PartitionSpec, seed: int) -> list[Array]:
    """Split samples, given by their labels: return the indices of each part, in random order.

    Each sample is in exactly one part, and no part is left with very few. Raises `ConfigError` for too few samples, or
    too few peers for so many replicas.
    """
    if not 1 <= num_parts <= len(y):
        raise ConfigError(f"{len(y)} samples cannot be split into {num_parts} parts; allowed: 1 to {len(y)}")
    if spec.replicas > num_parts:
        raise ConfigError(f"replicas is {spec.replicas}; allowed: 1 to {num_parts}, the number of peers")
    chance = np.random.default_rng(seed)
    if spec.kind == "iid":
        return np.array_split(chance.permutation(len(y)), num_parts)
    owners = np.empty(len(y), np.int64)
    for label in np.unique(y):
        members = chance.permutation(np.flatnonzero(y == label))
        shares = _shares(spec.alpha, num_parts, chance)
        owners[members] = np.searchsorted(np.cumsum(shares)[:-1], (np.arange(len(members)) + 0.5) / len(members))
    _even_out(owners, num_parts, chance)
    return [chance.permutation(np.flatnonzero(owners == part)) for part in range(num_parts)]


def held_by(peer: int, num_parts: int, replicas: int) -> list[int]:
    """List the parts that a peer holds, by number: first its own, then those of the peers before it."""
    return [(peer - step) % num_parts for step in range(min(replicas, num_parts))]


def _shares(alpha: float, num_parts: int, chance: np.random.Generator) -> Array:
    shares = chance.dirichlet(np.full(num_parts, alpha))
    if not math.isclose(shares.sum(), 1):  # all draws were too small for a float: the limit is one peer for all
        shares = np.eye(num_parts)[chance.integers(num_parts)]
    return shares


def _even_out(owners: Array, num_parts: int, chance: np.random.Generator) -> None:
    """Move samples from the largest parts to those with too few."""
    least = min(_MIN_SAMPLES, len(owners) // num_parts)
    sizes = np.bincount(owners, minlength=num_parts)
    for part in np.flatnonzero(sizes < least).tolist():
        while sizes[part] < least:
            largest = int(sizes.argmax())
            given = chance.choice(np.flatnonzero(owners == largest))
            owners[given] = part
            sizes[largest] -= 1
            sizes[part] += 1
