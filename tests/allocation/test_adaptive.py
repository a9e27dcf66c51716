"""What adaptive DAB is for: devices busy until the deadline and hardly ever late, however their speed changes."""

import math
import statistics

import msgspec
import pytest

from paceline.allocation import SITS_OUT, AdaptiveDabAllocation, Allocation, Candidate, DabAllocation, RoundTerms
from paceline.errors import ConfigError
from paceline.testing.allocation import TERMS, make_candidate
from tests.allocation.simulated import Device, scaled, separate, simulate, together

POLICY = AdaptiveDabAllocation()
ROUNDS = RoundTerms(
    deadline_seconds=15.0,
    local_epochs=5,
    model_bytes=180_000,
    shard_bytes=392_500,
    shard_samples=500,
    num_shards=10_000,
)
LARGE_MODEL = msgspec.structs.replace(ROUNDS, model_bytes=1_500_000, local_epochs=2)  # a tenth of the round to upload
PI_ZERO = Device(samples=400, down_bytes=1e6, up_bytes=0.5e6)  # two or three shards
PI = Device(samples=2500, down_bytes=2e6, up_bytes=1e6)
JETSON = Device(samples=30_000, down_bytes=50e6, up_bytes=20e6)
GPU = Device(samples=500_000, down_bytes=110e6, up_bytes=110e6)  # more than a thousand shards
DEVICES = {
    "pi zero": (ROUNDS, PI_ZERO),
    "pi": (ROUNDS, PI),
    "jetson": (ROUNDS, JETSON),
    "gpu": (ROUNDS, GPU),
    "large model": (LARGE_MODEL, PI),
}
NOISES = {"separate": separate(0.2), "together": together(0.2)}


def used(rounds):
    return statistics.fmean(spent.used for spent in rounds)


def late(rounds):
    return statistics.fmean(spent.is_late for spent in rounds)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("device", DEVICES)
def test_busy_and_in_time_when_speeds_vary_by_a_fifth(device, noise):
    for seed in range(2):
        rounds = list(simulate(POLICY, *DEVICES[device], NOISES[noise], num_rounds=1000, seed=seed))
        assert used(rounds) >= 0.95
        assert late(rounds) < 0.01


@pytest.mark.parametrize("device", ["pi zero", "jetson", "large model"])
def test_accidents_make_late_nobody_but_themselves(device):
    def level(number):
        return 0.5 if number % 50 == 25 else 1.0

    rounds = list(simulate(POLICY, *DEVICES[device], scaled(separate(0.2), level), num_rounds=1000, seed=1))
    assert used(rounds) >= 0.95
    assert late([spent for number, spent in enumerate(rounds) if number % 50 != 25]) < 0.01


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("device", ["pi zero", "pi", "jetson"])
def test_a_change_for_good_is_followed_within_three_rounds(device, factor):
    def level(number):
        return factor if number >= 300 else 1.0

    noise = scaled(separate(0.1), level)
    rounds = list(simulate(POLICY, *DEVICES[device], noise, num_rounds=600, seed=1))
    before, after = rounds[200:300], rounds[303:]
    expected = factor * statistics.fmean(spent.num_shards for spent in before)
    assert statistics.fmean(s.num_shards for s in after) == pytest.approx(expected, rel=0.1, abs=1)
    assert used(rounds[303:313]) >= 0.95
    assert used(after) >= 0.95
    assert sum(spent.is_late for spent in rounds[300:]) <= 1  # the first that nobody could foresee


def test_slow_drift_is_followed_all_along():
    noise = scaled(separate(0.2), lambda number: 2 ** (0.5 * math.sin(2 * math.pi * number / 200)))
    rounds = list(simulate(POLICY, ROUNDS, PI, noise, num_rounds=1000, seed=1))
    assert used(rounds) >= 0.95
    assert late(rounds) < 0.01


@pytest.mark.parametrize("benchmark_error", [0.4, 2.5])
def test_a_wrong_benchmark_is_soon_forgotten(benchmark_error):
    rounds = list(simulate(POLICY, ROUNDS, PI, separate(0.2), num_rounds=300, seed=1, benchmark_error=benchmark_error))
    assert used(rounds[3:]) >= 0.95
    assert late(rounds[3:]) < 0.01


@pytest.mark.parametrize(("benchmark_error", "gain"), [(1.0, 1.03), (0.8, 1.2)])
def test_it_trains_more_than_the_same_shards_every_round(benchmark_error, gain):
    total = {}
    for policy in (POLICY, DabAllocation()):
        rounds = simulate(
            policy, ROUNDS, JETSON, separate(0.2), num_rounds=300, seed=1, benchmark_error=benchmark_error
        )
        total[policy] = sum(spent.num_samples for spent in rounds if not spent.is_late)
    assert total[POLICY] > gain * total[DabAllocation()]


def test_at_first_the_benchmark_decides():
    candidate = make_candidate()
    [(dab, _)] = DabAllocation().allocate(TERMS, [candidate])
    [(adaptive, _)] = POLICY.allocate(TERMS, [candidate])
    assert dab <= adaptive <= math.ceil(1.2 * dab)


def test_too_slow_sits_out_at_first_but_goes_on_measuring_once_it_took_part():
    hopeless = msgspec.structs.replace(TERMS, deadline_seconds=0.1)
    assert POLICY.allocate(hopeless, [make_candidate()]) == [SITS_OUT]
    assert POLICY.allocate(hopeless, [make_candidate(num_rounds=1)]) == [Allocation(1, TERMS.local_epochs)]


def test_a_broken_upload_does_not_stop_all_training():
    *before, last = make_candidate(num_rounds=20).history
    broken = msgspec.structs.replace(last, up_seconds=1000.0)
    candidate = msgspec.structs.replace(make_candidate(), history=(*before, broken))
    assert POLICY.upload_seconds(TERMS, candidate) == pytest.approx(TERMS.deadline_seconds / 2, rel=0.01)


def test_no_less_than_the_margin_is_kept_free():
    candidate = make_candidate(num_rounds=20)
    wide = AdaptiveDabAllocation(margin=0.2)
    usual = AdaptiveDabAllocation(margin=0.0, caution=0.0)
    assert wide.upload_seconds(TERMS, candidate) >= usual.upload_seconds(TERMS, candidate) * 0.8 + 3.0


def test_history_is_enough_and_gaps_in_it_are_no_matter():
    measured = make_candidate(num_rounds=10)
    nothing = msgspec.structs.replace(
        measured.history[0],
        down_bytes=0,
        down_seconds=0.0,
        num_samples=0,
        train_seconds=0.0,
        up_bytes=0,
        up_seconds=0.0,
    )
    history = (*measured.history, nothing)
    [(with_profile, _)] = POLICY.allocate(TERMS, [measured])
    [(without, _)] = POLICY.allocate(TERMS, [Candidate(name="pi1", history=history)])
    assert without == pytest.approx(with_profile, rel=0.2)


def test_a_learner_that_nothing_is_known_of():
    with pytest.raises(ConfigError, match="adaptive-dab: learner 'pi1' has no measurements"):
        POLICY.allocate(TERMS, [Candidate(name="pi1")])
