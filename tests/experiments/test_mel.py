"""The modelled channel: distances, rates and the coefficients of a cycle."""

import math

import pytest

from paceline.errors import ConfigError
from papers.mel import DESKTOP_HERTZ, PI_HERTZ, Channel, Node, Workload, place_nodes

WORKLOAD = Workload()


def test_loss_is_free_space_up_to_the_breakpoint_and_steeper_beyond():
    channel = Channel()
    assert channel.loss_db(10) - channel.loss_db(1) == pytest.approx(20)
    assert channel.loss_db(100) - channel.loss_db(10) == pytest.approx(35)
    assert channel.loss_db(1) == pytest.approx(40.05, abs=0.01)  # Friis, 2.4 GHz
    assert channel.loss_db(0) == channel.loss_db(channel.min_distance_metres)


def test_rate_is_shannons():
    channel = Channel(bandwidth_hertz=1e6, transmit_dbm=0, noise_dbm_per_hertz=-160)  # noise of -100 dBm
    assert channel.bytes_per_second(100.0) == pytest.approx(1e6 / 8)  # signal as strong as noise: one bit per hertz
    assert channel.bytes_per_second(100 - 10 * math.log10(3)) == pytest.approx(2e6 / 8)


def test_coefficients_of_both_scenarios():
    node = Node(name="pi-1", distance_metres=5, hertz=PI_HERTZ, bytes_per_second=1e6)
    sent = node.coefficients(WORKLOAD, "task-parallelization")
    kept = node.coefficients(WORKLOAD, "distributed-datasets")
    assert sent.c2 == kept.c2 == pytest.approx(1_123_736 / 700e6)
    assert sent.c1 == pytest.approx(784 / 1e6)
    assert kept.c1 == 0
    assert sent.c0 == kept.c0 == pytest.approx(2 * 32 * (784 * 300 + 300 * 124 + 124 * 60 + 60 * 10) / 8e6)
    assert node.samples_per_second(WORKLOAD) == pytest.approx(1 / sent.c2)


def test_placement_is_repeatable_and_grows_by_appending():
    nodes = place_nodes(20, seed=3)
    assert nodes == place_nodes(20, seed=3)
    assert nodes[:7] == place_nodes(7, seed=3)
    assert nodes != place_nodes(20, seed=4)
    assert len({node.name for node in nodes}) == 20


def test_half_are_desktops_and_all_are_within_the_radius():
    nodes = [node for seed in range(50) for node in place_nodes(20, seed)]
    assert [node.hertz for node in nodes].count(DESKTOP_HERTZ) == len(nodes) / 2
    assert all(0 <= node.distance_metres <= 50 for node in nodes)
    inner = sum(node.distance_metres <= 25 for node in nodes) / len(nodes)
    assert inner == pytest.approx(0.25, abs=0.05)  # a quarter of the disc's area


def test_shadowing_makes_devices_at_the_same_distance_differ():
    bare = Channel(near_shadow_db=0, far_shadow_db=0)
    [shadowed], [plain] = place_nodes(1, 0), place_nodes(1, 0, bare)
    assert plain.distance_metres == shadowed.distance_metres
    assert plain.bytes_per_second == bare.bytes_per_second(bare.loss_db(plain.distance_metres))
    assert plain.bytes_per_second != shadowed.bytes_per_second


def test_bad_input():
    with pytest.raises(ConfigError, match="count is 0"):
        place_nodes(0, seed=0)
