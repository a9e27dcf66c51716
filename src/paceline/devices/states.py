"""States of a device: its owner's use of it, the capacity which that leaves, and its probability.

A device is idle, or trains or downloads something else, and has other rates in each case. Its state is random; the
probabilities are given, or learned from the duration of past rounds. After the thesis on Axon, ch. 4.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from paceline.checks import Positive, Ratio, Spec, check_fields
from paceline.devices.profiles import MAX_STATES, StateName
from paceline.errors import ConfigError

_TOLERANCE = 1e-6  # of a sum of probabilities
_LEAST_SPREAD = 0.05  # of a rate, as a ratio: no device repeats itself to the last digit


class DeviceState(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One state of a device.

    Attributes:
        probability: probability of being in it when a round begins.
        speed: training speed, as a ratio of the idle device's.
        bandwidth: bandwidth of its link, likewise.
    """

    name: StateName
    probability: Ratio
    speed: Positive = 1.0
    bandwidth: Positive = 1.0

    def __post_init__(self) -> None:
        check_fields(self)


def check_states(states: Sequence[DeviceState]) -> None:
    """Raise `ValueError` unless names differ and probabilities add up to 1; no states at all are fine."""
    names = [state.name for state in states]
    if len(names) > MAX_STATES:
        raise ValueError(f"there are {len(names)} states; allowed: at most {MAX_STATES}")
    if len(set(names)) < len(names):
        raise ValueError(f"states {names}: names must differ")
    total = sum(state.probability for state in states)
    if states and abs(total - 1) > _TOLERANCE:
        raise ValueError(f"the probabilities of states {names} add up to {total:g}; they must add up to 1")


def draw_state(states: Sequence[DeviceState], chance: random.Random) -> DeviceState:
    """Draw the state of a device; there must be at least one."""
    return chance.choices(states, weights=[state.probability for state in states])[0]


def heated_softmax(values: Sequence[float], heat: float) -> list[float]:
    """Return probabilities in proportion to e^(value / heat): nearly equal if hot, nearly a single one if cold."""
    if not heat > 0:
        raise ConfigError(f"heat is {heat}; it must be above 0")
    most = max(values)
    weights = [math.exp((value - most) / heat) for value in values]
    return [weight / sum(weights) for weight in weights]


class StateRates(NamedTuple):
    """Rates of a device in one state: samples per second for one local epoch, and bytes per second."""

    samples_per_second: float
    bytes_per_second: float


class Spent(NamedTuple):
    """Duration of a round on a device; 0 samples or bytes are ignored."""

    num_samples: int
    train_seconds: float
    num_bytes: int
    transfer_seconds: float


class StateEstimator:
    """Learns the probabilities of a device's states from the duration of its rounds.

    Each round counts for every state, by how well its rates explain the round (as if rates were log-normal around those
    measured). Before the first, all are equally likely, as if each had been observed `prior` times.

    Args:
        num_states: number of states.
        spread: standard deviation of a rate within a state, as a ratio of it.
        prior: weight of the first guess, in rounds per state.
        memory: number of rounds, about, after which observations fade.
    """

    def __init__(self, num_states: int, *, spread: float = 0.1, prior: float = 0.5, memory: float = 50.0) -> None:
        if num_states < 1:
            raise ConfigError("a device has at least one state")
        self._spread = max(spread, _LEAST_SPREAD)
        self._prior = prior
        self._keep = 1 - 1 / max(memory, 1.0)
        self._counts = [0.0] * num_states

    @property
    def probabilities(self) -> list[float]:
        """Probabilities of the states, in their order."""
        total = sum(self._counts) + self._prior * len(self._counts)
        return [(count + self._prior) / total for count in self._counts]

    def see(self, spent: Spent, rates: Sequence[StateRates]) -> list[float]:
        """Learn from a round, given the rates in each state; returns the probability of each state in it."""
        logarithms = [
            math.log(before) + self._fit(measured, spent)
            for before, measured in zip(self.probabilities, rates, strict=True)
        ]
        likely = heated_softmax(logarithms, 1.0)
        self._counts = [self._keep * count + part for count, part in zip(self._counts, likely, strict=True)]
        return likely

    def _fit(self, rates: StateRates, spent: Spent) -> float:
        """Return the log-likelihood of a round in a state, up to a constant."""
        seen = (
            (spent.num_samples, spent.train_seconds, rates.samples_per_second),
            (spent.num_bytes, spent.transfer_seconds, rates.bytes_per_second),
        )
        distances = [
            math.log(count / seconds / rate) / self._spread for count, seconds, rate in seen if count and seconds
        ]
        return -sum(distance * distance for distance in distances) / 2
