"""States of a device: what its owner does with it meanwhile, what that leaves of it, and how likely it is.

A device is idle, or trains or downloads something else, and has other rates in each case. Which it is in is a matter of
chance; how likely each is can be given, or learned from what past rounds took. After the thesis on Axon, ch. 4.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from paceline.checks import Positive, Ratio, check_fields
from paceline.errors import ConfigError

_TOLERANCE = 1e-6  # of a sum of probabilities
_LEAST_SPREAD = 0.05  # of a rate, as a ratio: no device repeats itself to the last digit
_PRICE_MEAN, _PRICE_VARIANCE, _PRICE_LEAST, _PRICE_MOST = 1.0, 0.5, 0.1, 1.5


class DeviceState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One state of a device.

    Attributes:
        probability: of being in it when a round begins.
        speed: of training, as a ratio of the idle device's.
        bandwidth: of its link, likewise.
    """

    name: str
    probability: Ratio
    speed: Positive = 1.0
    bandwidth: Positive = 1.0

    def __post_init__(self) -> None:
        check_fields(self)


def check_states(states: Sequence[DeviceState]) -> None:
    """Raise `ValueError` unless names differ and probabilities add up to 1; no states at all are fine."""
    names = [state.name for state in states]
    if len(set(names)) < len(names):
        raise ValueError(f"states {names}: names must differ")
    total = sum(state.probability for state in states)
    if states and abs(total - 1) > _TOLERANCE:
        raise ValueError(f"the probabilities of states {names} add up to {total:g}; they must add up to 1")


def draw_state(states: Sequence[DeviceState], chance: random.Random) -> DeviceState:
    """The state that a device is in, by chance; there must be one at least."""
    return chance.choices(states, weights=[state.probability for state in states])[0]


def heated_softmax(values: Sequence[float], heat: float) -> list[float]:
    """Probabilities in proportion to e^(value / heat): nearly equal ones if hot, nearly one alone if cold."""
    if not heat > 0:
        raise ConfigError(f"heat is {heat}; it must be above 0")
    most = max(values)
    weights = [math.exp((value - most) / heat) for value in values]
    return [weight / sum(weights) for weight in weights]


def draw_distribution(num_states: int, heat: float, chance: random.Random) -> list[float]:
    """Probabilities of states, one of which, drawn at random, is the likeliest."""
    usual = chance.randrange(num_states)
    return heated_softmax([float(number == usual) for number in range(num_states)], heat)


def draw_price(chance: random.Random) -> float:
    """What a learner asks for a shard: normally distributed around 1 with a variance of 0.5, cut at 0.1 and 1.5."""
    return min(max(chance.gauss(_PRICE_MEAN, math.sqrt(_PRICE_VARIANCE)), _PRICE_LEAST), _PRICE_MOST)


class StateRates(NamedTuple):
    """What was measured of a device in one state: samples per second for one local epoch, and bytes per second."""

    samples_per_second: float
    bytes_per_second: float


class Spent(NamedTuple):
    """What a round took on a device; 0 samples or bytes say nothing."""

    num_samples: int
    train_seconds: float
    num_bytes: int
    transfer_seconds: float


class StateEstimator:
    """Learns how likely the states of a device are from what its rounds took.

    Each round counts for every state, by how well its rates explain the round (as if rates were log-normal around those
    measured). Before the first, all are equally likely, as if each had been seen `prior` times.

    Args:
        num_states: that it may be in.
        spread: standard deviation of a rate within a state, as a ratio of it.
        prior: how many rounds the first guess is worth, for each state.
        memory: how many rounds it looks back, about: older ones fade.
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
        """Of the states, in their order."""
        total = sum(self._counts) + self._prior * len(self._counts)
        return [(count + self._prior) / total for count in self._counts]

    def see(self, spent: Spent, rates: Sequence[StateRates]) -> list[float]:
        """Learn from a round; returns how likely each state was in it.

        Args:
            rates: what was measured in each state, for what was trained.
        """
        logarithms = [
            math.log(before) + self._fit(measured, spent)
            for before, measured in zip(self.probabilities, rates, strict=True)
        ]
        likely = heated_softmax(logarithms, 1.0)
        self._counts = [self._keep * count + part for count, part in zip(self._counts, likely, strict=True)]
        return likely

    def _fit(self, rates: StateRates, spent: Spent) -> float:
        """The logarithm of how well a state explains a round, up to a constant."""
        seen = (
            (spent.num_samples, spent.train_seconds, rates.samples_per_second),
            (spent.num_bytes, spent.transfer_seconds, rates.bytes_per_second),
        )
        distances = [
            math.log(count / seconds / rate) / self._spread for count, seconds, rate in seen if count and seconds
        ]
        return -sum(distance * distance for distance in distances) / 2
