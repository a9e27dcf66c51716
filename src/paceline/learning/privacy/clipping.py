"""Changes that are no larger than promised, and noise that hides each of them in their sum."""

from __future__ import annotations

import math
import random

import torch

from paceline.learning.averaging import as_type, widened
from paceline.learning.privacy.streams import SEED_BYTES, normal
from paceline.learning.vectors import Vectors


def change_of(parameters: Vectors, start: Vectors) -> Vectors:
    """Return by how much parameters differ from those that they were trained from, in types to compute with."""
    return {kind: widened(vector) - widened(start[kind]) for kind, vector in parameters.items()}


def moved(start: Vectors, change: Vectors) -> Vectors:
    """Return parameters that differ by so much from others, in the types of those."""
    return {kind: as_type(widened(vector) + change[kind], vector.dtype) for kind, vector in start.items()}


def clipped(change: Vectors, most: float | None) -> Vectors:
    """Return a change scaled down to this norm, if it is larger; with no limit, as it is."""
    if most is None:
        return change
    norm = math.sqrt(sum(float(vector.double().square().sum()) for vector in change.values()))
    return change if norm <= most else {kind: vector * (most / norm) for kind, vector in change.items()}


def with_noise(change: Vectors, deviation: float, rng: random.Random) -> Vectors:
    """Return a change with normal noise of this standard deviation in every value; none if that is 0."""
    if not deviation:
        return change
    return {
        kind: vector + deviation * torch.from_numpy(normal(rng.randbytes(SEED_BYTES), len(vector))).to(vector.dtype)
        for kind, vector in change.items()
    }
