"""Partitions of training data among devices that each hold their own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from paceline.checks import Count, Positive, Spec, check_fields
from paceline.errors import ConfigError
from paceline.learning.datasets import Dataset, DataSpec
from paceline.learning.npz import read_npz
from paceline.learning.shards import Array, ShardSampler
from paceline.learning.tasks import TaskSpec
from paceline.learning.tasks.classification import Classification

KEY = "key_train"
"""Array of a data file with the group of each training sample."""
_MIN_SAMPLES = 8  # in each part, however uneven they are: enough for a minibatch


class PartitionSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Split of training data among devices: the ``[partition]`` table of a job; `ValueError` for a value out of range.

    Attributes:
        kind: ``iid``: equal parts, drawn at random; ``dirichlet``: of each class, the devices get shares drawn from a
            Dirichlet distribution, so that parts differ in size and in classes; ``classes``: each device has samples of
            a few classes; ``quantity``: parts drawn at random, of unequal sizes; ``key``: samples of the same group, by
            the array ``key_train`` of the data file, stay together.
        alpha: parameter of ``dirichlet``: 100 is almost even; at 0.1, most of a part is of one or two classes.
        classes_per_device: number of classes of each device, for ``classes``.
        size_skew: for ``quantity``; the kth largest part is in proportion to 1 / k to this power, so that 0 is even.
        replicas: number of peers that hold each part: its owner, and the next ones in case that one fails.
    """

    kind: Literal["iid", "dirichlet", "classes", "quantity", "key"] = "iid"
    alpha: Positive = 1.0
    classes_per_device: Count = 2
    size_skew: Annotated[float, Meta(ge=0, le=10)] = 1.0
    replicas: Count = 1

    def __post_init__(self) -> None:
        check_fields(self)

    def check_task(self, task: TaskSpec) -> None:
        """Raise `ValueError` if samples are to be split by their classes, and this built-in task has none."""
        if self.kind in ("dirichlet", "classes") and task.built_in not in (None, Classification):
            raise ValueError(
                f"kind of [partition] is {self.kind!r}, which splits samples by their classes, and a task of kind "
                f"{task.kind!r} has none; use iid, quantity or key"
            )


def split(dataset: Dataset, data: DataSpec, num_parts: int, spec: PartitionSpec, seed: int) -> list[Array]:
    """Split the training data of a job: return the indices of each part; raises `ConfigError` where that cannot be."""
    if num_parts > len(dataset.train):
        raise ConfigError(f"{len(dataset.train)} samples of {dataset.name} are too few for {num_parts} devices")
    return parts(_keys(data) if spec.kind == "key" else dataset.train.labels(), num_parts, spec, seed)


def parts(values: Array, num_parts: int, spec: PartitionSpec, seed: int) -> list[Array]:
    """Split samples, given by their labels: return the indices of each part, in random order.

    Each sample is in exactly one part, and no part is left with very few. Raises `ConfigError` where that cannot be.

    Args:
        values: label of each sample; for ``key``, its group.
    """
    num_samples = len(values)
    if spec.replicas > num_parts:
        raise ConfigError(f"replicas is {spec.replicas}; allowed: 1 to {num_parts}, the number of peers")
    chance = np.random.default_rng(seed)
    match spec.kind:
        case "iid":
            return np.array_split(chance.permutation(num_samples), num_parts)
        case "dirichlet":
            owners = _by_shares(_classes(values, spec), num_parts, spec.alpha, chance)
        case "classes":
            owners = _by_classes(_classes(values, spec), num_parts, spec.classes_per_device, chance)
        case "quantity":
            owners = _by_quantity(num_samples, num_parts, spec.size_skew, chance)
        case "key":
            owners = _by_key(values, num_parts, chance)
    return [chance.permutation(np.flatnonzero(owners == part)) for part in range(num_parts)]


def held_by(peer: int, num_parts: int, replicas: int) -> list[int]:
    """List the parts that a peer holds, by number: first its own, then those of the peers before it."""
    return [(peer - step) % num_parts for step in range(min(replicas, num_parts))]


def _keys(data: DataSpec) -> Array:
    if data.path is None or not data.path.endswith(".npz"):
        raise ConfigError(f"[partition] kind is key: it needs an .npz file with the array {KEY}; set [data] path")
    arrays = read_npz(Path(data.path), ("y_train", KEY))
    keys = arrays[KEY]
    if keys.ndim != 1 or len(keys) != len(arrays["y_train"]) or keys.dtype.kind not in "iuUS":
        raise ConfigError(
            f"{data.path}: {KEY} is {keys.dtype} of shape {keys.shape}; it must be whole numbers or texts, one for "
            f"each of {len(arrays['y_train'])} samples"
        )
    return keys


def _classes(values: Array, spec: PartitionSpec) -> Array:
    """Number the classes of samples from 0, without gaps; raises `ConfigError` for labels that are no classes."""
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise ConfigError(
            f"[partition] kind is {spec.kind}: it needs a class for each sample, and these labels are "
            f"{values.dtype} of shape {values.shape}; use iid, quantity or key"
        )
    return np.unique(values, return_inverse=True)[1]


def _by_shares(labels: Array, num_parts: int, alpha: float, chance: np.random.Generator) -> Array:
    owners = np.empty(len(labels), np.int64)
    for label in range(labels.max() + 1):
        members = chance.permutation(np.flatnonzero(labels == label))
        owners[members] = _dealt(len(members), _shares(alpha, num_parts, chance))
    _even_out(owners, num_parts, chance)
    return owners


def _by_quantity(num_samples: int, num_parts: int, skew: float, chance: np.random.Generator) -> Array:
    weights = np.exp(-skew * np.log(np.arange(1, num_parts + 1)))
    owners = chance.permutation(_dealt(num_samples, chance.permutation(weights / weights.sum())))
    _even_out(owners, num_parts, chance)
    return owners


def _by_classes(labels: Array, num_parts: int, each: int, chance: np.random.Generator) -> Array:
    """Give each part its classes, all of them about equally often, and deal out each class evenly."""
    num_classes = int(labels.max()) + 1
    if not each <= num_classes <= each * num_parts:
        raise ConfigError(
            f"classes_per_device is {each}; allowed for {num_classes} classes and {num_parts} devices: "
            f"{math.ceil(num_classes / num_parts)} to {num_classes}"
        )
    sampler = ShardSampler(num_classes, chance.integers(1 << 32, size=1).tolist())
    holders: list[list[int]] = [[] for _ in range(num_classes)]
    for part in range(num_parts):
        for label in sampler.draw(each):
            holders[label].append(part)
    owners = np.empty(len(labels), np.int64)
    for label, parts_with in enumerate(holders):
        members = np.flatnonzero(labels == label)
        owners[members] = chance.permutation(np.resize(parts_with, len(members)))
    _check_sizes(owners, num_parts)
    return owners


def _by_key(keys: Array, num_parts: int, chance: np.random.Generator) -> Array:
    """Give each group to the part that is the smallest so far, the largest groups first."""
    groups, sizes = np.unique(keys, return_inverse=True, return_counts=True)[1:]
    if len(sizes) < num_parts:
        raise ConfigError(f"{KEY} has {len(sizes)} groups; they cannot be split into {num_parts} parts")
    order, filled = chance.permutation(len(sizes)), np.zeros(num_parts, np.int64)
    part_of = np.empty(len(sizes), np.int64)
    for group in order[np.argsort(-sizes[order], kind="stable")].tolist():
        part_of[group] = filled.argmin()
        filled[part_of[group]] += sizes[group]
    owners: Array = part_of[groups]
    _check_sizes(owners, num_parts)
    return owners


def _dealt(num_samples: int, shares: Array) -> Array:
    """Return the part of each of so many samples, in proportion to shares."""
    return np.searchsorted(np.cumsum(shares)[:-1], (np.arange(num_samples) + 0.5) / num_samples)


def _shares(alpha: float, num_parts: int, chance: np.random.Generator) -> Array:
    shares = chance.dirichlet(np.full(num_parts, alpha))
    if not math.isclose(shares.sum(), 1):  # all draws were too small for a float: the limit is one peer for all
        shares = np.eye(num_parts)[chance.integers(num_parts)]
    return shares


def _least(num_samples: int, num_parts: int) -> int:
    return min(_MIN_SAMPLES, num_samples // num_parts)


def _check_sizes(owners: Array, num_parts: int) -> None:
    """Raise `ConfigError` if a part has too few samples, where none can be moved to it."""
    smallest, least = np.bincount(owners, minlength=num_parts).min(), _least(len(owners), num_parts)
    if smallest < least:
        raise ConfigError(
            f"one of {num_parts} parts would have {smallest} samples, and each needs at least {least}; "
            "use fewer devices"
        )


def _even_out(owners: Array, num_parts: int, chance: np.random.Generator) -> None:
    """Move samples from the largest parts to those with too few."""
    least = _least(len(owners), num_parts)
    sizes = np.bincount(owners, minlength=num_parts)
    for part in np.flatnonzero(sizes < least).tolist():
        while sizes[part] < least:
            largest = int(sizes.argmax())
            given = chance.choice(np.flatnonzero(owners == largest))
            owners[given] = part
            sizes[largest] -= 1
            sizes[part] += 1
