"""The slowdown is at least 1, never falls with usage, and is found again in what it caused."""

import itertools
import random

import numpy as np
import pytest

from paceline.devices.contention.regression import Observation, SlowdownModel, cross_validate, fit_slowdown
from paceline.devices.contention.usage import ForeignUsage


def usages(num_usages, seed=0):
    chance = random.Random(seed)
    return [
        ForeignUsage(
            cpu_ratio=chance.random() * 0.9,
            network_bytes_per_second=chance.choice([0.0, 1e7, 2e8]),
            disk_bytes_per_second=chance.choice([0.0, 2e7, 1e8]),
        )
        for _ in range(num_usages)
    ]


def observed(seconds_of, num_loads=20, noise=0.0, seed=0):
    """Three observations beside each of some loads."""
    chance = random.Random(seed)
    return [
        Observation(load=str(number), usage=usage, seconds_per_sample=seconds_of(usage) * chance.gauss(1, noise))
        for number, usage in enumerate(usages(num_loads, seed))
        for _ in range(3)
    ]


def single_thread(usage):
    """What a sample takes one thread on two cores: others have a core for nothing."""
    return 0.002 * max(1.0, 0.5 / (1 - usage.cpu_ratio)) * (1 + 0.1 * usage.disk_bytes_per_second / 1e8)


def test_what_caused_the_observations_is_found_again():
    slowdown = SlowdownModel(cpu=(0.5, *[0.0] * 3, 0.4, *[0.0] * 3), network=0.2, disk=0.05)
    alone, found = fit_slowdown(observed(lambda usage: 0.01 * slowdown.ratio(usage)))
    assert alone == pytest.approx(0.01, rel=0.02)
    for usage in usages(50, seed=1):
        assert found.ratio(usage) == pytest.approx(slowdown.ratio(usage), rel=0.03)


def test_a_threshold_is_found_although_no_knot_says_so():
    alone, found = fit_slowdown(observed(single_thread, num_loads=40))
    for usage in usages(50, seed=1):
        assert alone * found.ratio(usage) == pytest.approx(single_thread(usage), rel=0.08)


def test_what_was_never_seen_is_not_believed_to_be_faster():
    busy = [o for o in observed(single_thread, num_loads=60) if o.usage.cpu_ratio >= 0.5]
    alone, found = fit_slowdown(busy)
    least = min(o.seconds_per_sample for o in busy)
    assert alone >= 0.9 * least
    assert found.ratio(ForeignUsage(cpu_ratio=0.25)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_at_least_one_and_never_falling_whatever_it_was_fitted_to(seed):
    chance = random.Random(seed)
    observations = observed(lambda usage: 0.01 * chance.uniform(0.1, 10), seed=seed)
    _, found = fit_slowdown(observations)
    assert found.ratio(ForeignUsage()) == 1
    for cpu, network, disk in itertools.product(np.linspace(0, 1, 9), (0.0, 1e8), (0.0, 1e8)):
        here = found.ratio(ForeignUsage(cpu_ratio=cpu, network_bytes_per_second=network, disk_bytes_per_second=disk))
        more = found.ratio(
            ForeignUsage(
                cpu_ratio=min(1, cpu + 0.1), network_bytes_per_second=2 * network, disk_bytes_per_second=2 * disk
            )
        )
        assert 1 <= here <= more < float("inf")


def test_cross_validation_tells_the_noise():
    exact = SlowdownModel(cpu=(1.0, *[0.0] * 7))
    assert cross_validate(observed(lambda usage: exact.ratio(usage))) < 0.01
    noisy = cross_validate(observed(lambda usage: exact.ratio(usage), noise=0.1))
    assert 0.04 < noisy < 0.2
