"""Slowdown of training by others' use of the device: RG(U) ≥ 1, fitted to profiling runs.

A sample takes t = t0·RG(U) seconds, where t0 is what it takes alone (Han et al., §3.3). Here

    RG(U) = 1 + Σ_k a_k·φ_k(U),   a_k ≥ 0,

with features φ_k that are 0 when nobody else uses the device and grow with each of the three usages. So RG is never
below 1 and never falls when others use more, whatever it was fitted to. For the processor, features are hinges of its
free share: if others take the share u of all cores, what needs all of them takes 1/(1 − u) times as long; what needs
less is slowed down only from some u on, the hinge's knot. For network and disk, they are linear in bytes per second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from paceline.devices.contention.usage import ForeignUsage
from paceline.errors import ConfigError
from paceline.extras import extra

KNOTS = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
"""Shares of all cores used by others from which a hinge grows."""
MOST_CPU_RATIO = 0.97
"""Limit of others' share: beyond it, too little of the processor is left to measure."""
LEAST_OBSERVATIONS = 6

_BYTES = 1e8  # unit of bytes per second in features, for coefficients of similar size
_PENALTY = 1e-3  # on large coefficients, as a ratio of the error: correlated features share the effect


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Training time of a sample at some usage by others.

    Attributes:
        load: label of the load, for people.
    """

    load: str
    usage: ForeignUsage
    seconds_per_sample: float


class SlowdownModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """RG: factor by which others' usage slows down training; `ValueError` for coefficients out of range.

    Attributes:
        cpu: coefficient of each knot's hinge.
        network: coefficient per 100 MB/s.
        disk: coefficient per 100 MB/s.
    """

    cpu: tuple[float, ...] = (0.0,) * len(KNOTS)
    network: float = 0.0
    disk: float = 0.0

    def __post_init__(self) -> None:
        if len(self.cpu) != len(KNOTS):
            raise ValueError(f"cpu has {len(self.cpu)} coefficients; there must be {len(KNOTS)}")
        if not all(0 <= number < math.inf for number in (*self.cpu, self.network, self.disk)):
            raise ValueError("coefficients must be at least 0")

    def ratio(self, usage: ForeignUsage) -> float:
        """Compute RG(U), at least 1."""
        return 1 + float(np.dot((*self.cpu, self.network, self.disk), _features(usage)))


def fit_slowdown(observations: Sequence[Observation]) -> tuple[float, SlowdownModel]:
    """Fit t0, the seconds per sample alone, and the slowdown to observations, by the relative error.

    t0 is fitted too, since a device is never quite idle. Raises `ConfigError` for too few observations.
    """
    with extra("solvers"):
        from scipy.optimize import nnls  # takes long to load

    if len(observations) < LEAST_OBSERVATIONS:
        raise ConfigError(f"{len(observations)} observations; it takes at least {LEAST_OBSERVATIONS} to fit a slowdown")
    seconds = np.array([observation.seconds_per_sample for observation in observations])
    features = np.array([[1.0, *_features(observation.usage)] for observation in observations])
    features[:, 1 : 1 + len(KNOTS)][:, ~_seen_knots(observations)] = 0.0
    scale = float(np.median(seconds))
    rows = features * (scale / seconds)[:, None]
    penalty = np.sqrt(_PENALTY * len(observations)) * np.eye(rows.shape[1])[1:]
    wanted = np.concatenate([np.ones(len(rows)), np.zeros(len(penalty))])
    found = nnls(np.vstack([rows, penalty]), wanted)[0]
    alone = float(found[0])
    if not alone > 0:
        raise ConfigError("the observations cannot be explained: training alone would take no time")
    *cpu, network, disk = (float(number) for number in found[1:] / alone)
    return alone * scale, SlowdownModel(cpu=tuple(cpu), network=network, disk=disk)


def _seen_knots(observations: Sequence[Observation]) -> np.ndarray[Any, Any]:
    """Return which knots count: those far below the least usage observed cannot be fitted."""
    least = min(observation.usage.cpu_ratio for observation in observations)
    last_below = max(knot for knot in KNOTS if knot <= least)
    return np.array(KNOTS) >= last_below


def cross_validate(observations: Sequence[Observation]) -> float:
    """Return the mean relative error of predictions for loads that were left out of the fit."""
    errors = []
    for load in dict.fromkeys(observation.load for observation in observations):
        others = [observation for observation in observations if observation.load != load]
        alone, slowdown = fit_slowdown(others)
        for observation in observations:
            if observation.load == load:
                predicted = alone * slowdown.ratio(observation.usage)
                errors.append(abs(predicted / observation.seconds_per_sample - 1))
    return float(np.mean(errors))


def _features(usage: ForeignUsage) -> np.ndarray[Any, Any]:
    used = min(usage.cpu_ratio, MOST_CPU_RATIO)
    hinges = [max(0.0, 1 / (1 - used) - 1 / (1 - knot)) for knot in KNOTS]
    return np.array([*hinges, usage.network_bytes_per_second / _BYTES, usage.disk_bytes_per_second / _BYTES])
