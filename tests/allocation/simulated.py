"""A device that takes part in rounds, as arithmetic: no clock, no threads, thousands of rounds a second."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from paceline.allocation import AllocationPolicy, Candidate, RoundTerms, Timings
from paceline.devices.profiles import Profile, Rate

KEPT_ROUNDS = 50
LATENCY_SECONDS = 0.01
BATCH_SAMPLES = 32

Factors = tuple[float, float, float]
"""What a round's rates are multiplied with: training, download, upload."""

Noise = Callable[[random.Random, int], Factors]
"""The factors of a round, by its number."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """Its true rates, per second, at factor 1."""

    samples: float
    down_bytes: float
    up_bytes: float


@dataclass(frozen=True, kw_only=True)
class Spent:
    """How a round went; `used` is the share of the deadline from its start to the arrival of the update."""

    num_shards: int
    num_samples: int
    used: float
    is_late: bool


def together(width: float) -> Noise:
    """The whole device is off by up to that ratio."""
    return lambda chance, _: (chance.uniform(1 - width, 1 + width),) * 3


def separate(width: float) -> Noise:
    """Each of the three rates for itself is off by up to that ratio."""

    def factors(chance: random.Random, _: int) -> Factors:
        train, down, up = (chance.uniform(1 - width, 1 + width) for _ in range(3))
        return train, down, up

    return factors


def scaled(noise: Noise, level: Callable[[int], float]) -> Noise:
    """The same noise on a level that depends on the round."""

    def factors(chance: random.Random, number: int) -> Factors:
        train, down, up = (factor * level(number) for factor in noise(chance, number))
        return train, down, up

    return factors


def simulate(
    policy: AllocationPolicy,
    terms: RoundTerms,
    device: Device,
    noise: Noise,
    *,
    num_rounds: int,
    seed: int,
    benchmark_error: float = 1.0,
) -> Iterator[Spent]:
    """Take part in so many rounds, after a benchmark that found rates wrong by that factor."""
    chance = random.Random(seed)
    rates = (device.samples, device.down_bytes, device.up_bytes)
    train, down, up = (Rate(rate * benchmark_error, 0.05) for rate in rates)
    profile = Profile(train=train, down=down, up=up, latency_seconds=LATENCY_SECONDS)
    history: tuple[Timings, ...] = ()
    for number in range(num_rounds):
        candidate = Candidate(name="pi1", profile=profile, history=history)
        factors = noise(chance, number)
        true = Device(samples=rates[0] * factors[0], down_bytes=rates[1] * factors[1], up_bytes=rates[2] * factors[2])
        timings, spent = _take_part(policy, terms, true, candidate)
        history = (*history, timings)[-KEPT_ROUNDS:]
        yield spent


def _take_part(
    policy: AllocationPolicy, terms: RoundTerms, true: Device, candidate: Candidate
) -> tuple[Timings, Spent]:
    """Download, train until halted, upload. A minibatch that would end too late is not begun; one is always done."""
    [(num_shards, _)] = policy.allocate(terms, [candidate])
    num_bytes = terms.model_bytes + num_shards * terms.shard_bytes
    down_seconds = LATENCY_SECONDS + num_bytes / true.down_bytes
    halt_seconds = terms.deadline_seconds - policy.upload_seconds(terms, candidate)
    num_batches = max(1, math.floor((halt_seconds - down_seconds) * true.samples / BATCH_SAMPLES))
    num_samples = min(num_batches * BATCH_SAMPLES, num_shards * terms.shard_samples * terms.local_epochs)
    train_seconds = num_samples / true.samples
    up_seconds = LATENCY_SECONDS + terms.model_bytes / true.up_bytes
    seconds = down_seconds + train_seconds + up_seconds
    timings = Timings(
        down_bytes=num_bytes,
        down_seconds=down_seconds,
        num_samples=num_samples,
        train_seconds=train_seconds,
        up_bytes=terms.model_bytes,
        up_seconds=up_seconds,
    )
    used = min(seconds / terms.deadline_seconds, 1.0)
    is_late = seconds > terms.deadline_seconds
    return timings, Spent(num_shards=num_shards, num_samples=num_samples, used=used, is_late=is_late)
