"""Jobs, devices and schemes of the thesis."""

import pytest

from paceline.errors import ConfigError
from papers.med.setting import KINDS, SCHEMES, Size, devices_of, jobs_of, policy_of

FULL = Size()


def test_a_seed_has_the_same_devices_whatever_their_number():
    assert devices_of(3, 4, FULL) == devices_of(3, 10, FULL)[:4]
    assert devices_of(3, 4, FULL) != devices_of(4, 4, FULL)


def test_devices_are_drawn_as_the_thesis_draws_them():
    devices = [device for seed in range(30) for device in devices_of(seed, 10, FULL)]
    assert all(0.1 <= device.price <= 1.5 for device in devices)
    likeliest = [max(device.states, key=lambda state: state.probability) for device in devices]
    assert {state.name for state in likeliest} == {"idle", "training", "downloading"}
    assert {round(state.probability, 6) for state in likeliest} == {0.786986}  # e² / (e² + 2): a heat of 0.5
    for device in devices:
        assert device.samples_per_second["fashion"] == pytest.approx(500 / 1.258, rel=0.065)
        assert device.down_mbit == device.up_mbit == pytest.approx(80, rel=0.065)


def test_fewer_samples_go_with_slower_devices():
    [whole], [part] = devices_of(0, 1, FULL), devices_of(0, 1, Size(scale=20))
    assert part.samples_per_second["mnist-ff"] == pytest.approx(whole.samples_per_second["mnist-ff"] / 20)
    assert (part.states, part.price, part.down_mbit) == (whole.states, whole.price, whole.down_mbit)


def test_schemes():
    policies = {scheme: policy_of(scheme, 300.0) for scheme in SCHEMES}
    assert all(policy.budget == 300.0 and policy.min_shards == 1 for policy in policies.values())
    assert {scheme: policy.held_share for scheme, policy in policies.items() if policy.held_share} == {
        "med-held-back": 0.5
    }
    assert [scheme for scheme, policy in policies.items() if policy.is_renewed] == ["mmtt-ideal"]
    assert [policy.state_reports for policy in policies.values()] == ["never", "each round", "once", "never"]


def test_jobs_are_those_of_the_table():
    try:
        prepared = jobs_of(4, Size(rounds=1, scale=50, num_test_samples=10), more_seconds=5.0)
    except ConfigError as error:
        pytest.skip(str(error))
    jobs = [one.job for one in prepared]
    assert [job.name for job in jobs] == list(KINDS)
    assert [job.deadline_seconds for job in jobs] == [60, 45, 45, 45]
    assert [one.terms.num_shards for one in prepared] == [60, 60, 20, 20]
    assert [one.terms.local_epochs for one in prepared] == [2, 1, 1, 1]
    sizes = [one.terms.model_bytes for one in prepared]
    assert sizes == [4 * 573_910, 4 * 102_250, 4 * 2_079_310, 4 * 2_079_310]
    assert prepared[0].terms.shard_bytes == 10 * (784 * 4 + 1)  # four bytes a pixel, and a label
