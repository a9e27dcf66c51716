"""The LTE cell: Eq. 3 of the paper, the scheduler, and rates that LTE could have."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import exp1

from paceline.devices.lte_cell import BLOCK_HERTZ, Cell, CellRates, rates, schedule
from paceline.errors import ConfigError

EQUAL = Cell(scheduling="equal")


def watts(dbm):
    return 10 ** (dbm / 10) / 1000


def equation_3(num_blocks, power_watts, distance):
    """In bits per second, with the mean over fading integrated numerically; power in each block."""
    noise = watts(-103) + BLOCK_HERTZ * watts(-174)
    mean, _ = quad(lambda o: math.exp(-o) * (1 + power_watts * o * distance**-3.76 / noise), 0, math.inf)
    return num_blocks * BLOCK_HERTZ * math.log2(mean)


def mean_rate(sinr):
    """The mean of log2(1 + SINR·o) over Rayleigh fading, in bits per second and hertz, in closed form."""
    return math.exp(1 / sinr) * exp1(1 / sinr) / math.log(2)


def played(sinrs, num_blocks=100, seed=0):
    return schedule(sinrs, num_blocks, 100, np.random.default_rng(seed))


@pytest.mark.parametrize("distance", [1, 30, 250, 500, 3000])
@pytest.mark.parametrize("num_nodes", [1, 5, 40, 100])
def test_equal_shares_are_equation_3(distance, num_nodes):
    share = 100 / num_nodes
    down = equation_3(share, watts(30) / 100, distance)  # the eNB's power is spread over all blocks
    up = equation_3(share, watts(10) / share, distance)  # a device's over those it has
    expected = CellRates(down_mbit=pytest.approx(down / 1e6), up_mbit=pytest.approx(up / 1e6))
    assert rates(EQUAL, [distance] * num_nodes) == [expected] * num_nodes


@pytest.mark.parametrize("sinr_db", [-10, 0, 10, 30])
def test_a_node_alone_has_all_blocks_and_the_mean_rate_over_fading(sinr_db):
    sinr = 10 ** (sinr_db / 10)
    blocks, bits = played([sinr])
    assert blocks == [100]
    assert bits == pytest.approx(100 * mean_rate(sinr), rel=0.02)
    assert bits < 100 * math.log2(1 + sinr)  # Eq. 3 is the rate at the mean gain


@pytest.mark.parametrize("num_nodes", [2, 5, 30])
def test_equal_nodes_get_equal_shares_and_gain_by_being_many(num_nodes):
    sinr = 10.0
    blocks, bits = played([sinr] * num_nodes)
    assert blocks == pytest.approx(100 / num_nodes, rel=0.01)
    # Equal nodes are chosen by their fading alone: the best of n exponentials, up to noise in the means.
    best = -np.log(1 - np.random.default_rng(1).random(200_000) ** (1 / num_nodes))
    assert bits * num_nodes / 100 == pytest.approx(np.log2(1 + sinr * best).mean(), rel=0.01)
    assert bits.min() > 100 / num_nodes * mean_rate(sinr)


def test_scheduling_is_proportionally_fair():
    """No shift of blocks would raise one rate by a larger part than it lowers others: Σ log(rate) is the greatest."""
    sinrs = [0.5, 3.0, 20.0, 200.0]
    fair = played(sinrs).bits_per_hertz
    chance = np.random.default_rng(5)
    fading = chance.standard_exponential((200_000, len(sinrs)))
    possible = np.log2(1 + np.array(sinrs) * fading)
    for _ in range(20):  # other schedulers, which weigh the rates otherwise
        weights = np.exp(chance.normal(0, 0.5, len(sinrs))) / fair
        winners = (possible * weights).argmax(1)
        other = [100 * possible[winners == node, node].sum() / len(possible) for node in range(len(sinrs))]
        assert np.log(other).sum() < np.log(fair).sum() + 0.02


def test_rates_are_repeatable_from_the_seed():
    distances = [100.0, 200.0, 400.0]
    assert rates(Cell(seed=1), distances) == rates(Cell(seed=1), distances)
    assert rates(Cell(seed=1), distances) != rates(Cell(seed=2), distances)
    assert rates(Cell(), []) == []


def test_places_are_spread_evenly_over_the_disc():
    places = [Cell(seed=3).place(f"node-{number}") for number in range(4000)]
    assert places[7] == Cell(seed=3).place("node-7") != Cell(seed=4).place("node-7")
    assert max(places) <= 500
    for radius in (100, 250, 400):
        assert sum(place < radius for place in places) / 4000 == pytest.approx((radius / 500) ** 2, abs=0.03)
    assert Cell(radius_metres=50, seed=3).place("node-7") == pytest.approx(places[7] / 10)


def test_what_is_out_of_reach_is_told():
    with pytest.raises(ConfigError, match=r"a device 1e\+06 m away is out of the cell's reach: .* 113 dB below"):
        rates(Cell(), [10.0, 1e6])


def test_a_scheduler_serves_so_many_and_no_more():
    cell = Cell(num_blocks=3)
    assert all(rate.up_mbit > 0 for rate in rates(cell, [100.0] * 30))
    with pytest.raises(ConfigError, match=r'31 devices in the cell; .*3 blocks allows 30, scheduling = "equal" any'):
        rates(cell, [100.0] * 31)
    assert len(rates(Cell(num_blocks=3, scheduling="equal"), [100.0] * 31)) == 31
