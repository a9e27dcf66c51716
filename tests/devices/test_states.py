import math
import random

import pytest

from paceline.devices.states import DeviceState, Spent, StateEstimator, StateRates, check_states, heated_softmax
from paceline.errors import ConfigError

IDLE, TRAINING, DOWNLOADING = StateRates(1000, 1e6), StateRates(400, 0.9e6), StateRates(950, 0.3e6)


def test_softmax_gets_colder_and_hotter():
    assert heated_softmax([1, 0, 0], 0.5) == pytest.approx(
        [math.exp(2) / (math.exp(2) + 2)] + [1 / (math.exp(2) + 2)] * 2
    )
    assert heated_softmax([1, 0], 1e-9) == [1.0, 0.0]
    assert heated_softmax([1, 0], 1e9) == pytest.approx([0.5, 0.5])
    assert heated_softmax([1e308, -1e308], 1e-300) == [1.0, 0.0]
    with pytest.raises(ConfigError, match="heat is 0"):
        heated_softmax([1, 0], 0)


def test_states_that_do_not_go_together():
    one = DeviceState(name="idle", probability=0.5)
    with pytest.raises(ValueError, match="names must differ"):
        check_states([one, one])
    with pytest.raises(ValueError, match="add up to 0.5; they must add up to 1"):
        check_states([one])
    check_states([])


def rounds(distribution, count, seed=0, noise=0.1):
    chance = random.Random(seed)
    for _ in range(count):
        [rates] = chance.choices([IDLE, TRAINING, DOWNLOADING], weights=distribution)
        train, link = (rate * math.exp(chance.gauss(0, noise)) for rate in rates)
        yield rates, Spent(num_samples=5000, train_seconds=5000 / train, num_bytes=10**7, transfer_seconds=1e7 / link)


@pytest.mark.parametrize("seed", range(5))
def test_the_distribution_is_learned(seed):
    truth = [0.15, 0.6, 0.25]
    estimator = StateEstimator(3, memory=1e9)
    assert estimator.probabilities == pytest.approx([1 / 3] * 3)
    for _, spent in rounds(truth, 400, seed):
        estimator.see(spent, [IDLE, TRAINING, DOWNLOADING])
    assert estimator.probabilities == pytest.approx(truth, abs=0.07)


def test_rounds_are_told_apart():
    estimator, states, num_right = StateEstimator(3), [IDLE, TRAINING, DOWNLOADING], 0
    for rates, spent in rounds([1, 1, 1], 300):
        likely = estimator.see(spent, states)
        num_right += states[likely.index(max(likely))] is rates
    assert num_right > 295


def test_old_rounds_fade():
    estimator = StateEstimator(3, memory=10)
    for _, spent in [*rounds([1, 0, 0], 200), *rounds([0, 1, 0], 40)]:
        estimator.see(spent, [IDLE, TRAINING, DOWNLOADING])
    assert estimator.probabilities[1] > 0.85


def test_what_was_not_measured_says_nothing():
    estimator = StateEstimator(2)
    assert estimator.see(Spent(0, 0.0, 0, 0.0), [IDLE, TRAINING]) == pytest.approx([0.5, 0.5])
    with pytest.raises(ConfigError, match="at least one state"):
        StateEstimator(0)
