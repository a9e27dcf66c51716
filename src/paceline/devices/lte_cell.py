"""Links of devices in one LTE cell: their rates by distance, and by how the cell is shared.

After Malandrino and Chiasserini, "Flexible Parallel Learning in Edge Scenarios" (2022), section III: nodes are spread
over a disc of 500 m around an eNB, the base station, which is also the edge server. Its 20 MHz are 100 resource blocks
of B = 180 kHz. With r of them, a node's rate is (Eq. 3)

    r·B·log2 E(1 + P·h / (I + B·N0))   bits per second,   h = o·d^−α,

with transmit power P, 30 dBm for the eNB and 10 dBm for a node; gain h at distance d in metres; Rayleigh fading, so
that o is exponentially distributed with mean 1; interference I; and noise of N0 = −174 dBm/Hz. The mean is within the
logarithm, so Eq. 3 is the rate at the mean gain: r·B·log2(1 + SINR) with the mean SINR = P·d^−α / (I + B·N0).

What the paper leaves open is our choice:

- α = 3.76, as in 3GPP's loss of urban macro cells, 128.1 + 37.6·log10(kilometres) dB (TR 36.942; not checked against
  the document). Its loss at one metre, 15.3 dB, is left out, as Eq. 3 has none. Nearer than a metre counts as a metre.
- I = −103 dBm in each block: about what reaches a place from another eNB of this kind, 1 km away.
- P is for all blocks that a sender uses: the eNB's is spread evenly over all blocks, a node's over its equal share of
  them, but at least over one.
- The scheduler averages over 100 TTIs of 1 ms. Fading is drawn anew for each node, block and TTI, and independently.

Both ways of sharing assume that all nodes always have something to send and to receive. ``equal`` is Eq. 3 with
r = 100/n for n nodes. ``proportional-fair`` plays the scheduler that the paper names: in each TTI, a block goes to the
node whose rate in it is highest relative to the mean rate that it had lately. They differ in two ways. The mean over
fading of log2(1 + SINR·o) is below Eq. 3, by up to 0.83 bit/s per hertz (Euler's constant in bits) where the SINR is
high. But the scheduler avoids fades, and gives each node blocks that are good for it; the more nodes there are to
choose from, the more it gains, and most where the SINR is low. With the defaults, for nodes that are equally far, 50 to
500 m: a node alone has 5 to 16 % less than by Eq. 3; of five nodes, each downloads 6 to 24 % faster and uploads 8 to
71 % faster; of a hundred, 14 to 57 % faster both ways. Where distances differ, near nodes get a few more blocks.

Rates are Shannon's, without the ceiling of LTE's modulations: a node beside the eNB is faster than LTE has it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from msgspec import Meta

from paceline.checks import Count, Positive, Seed, Spec, check_fields
from paceline.errors import ConfigError

Array: TypeAlias = "np.ndarray[Any, Any]"

BLOCK_HERTZ = 180e3
NOISE_DBM_PER_HERTZ = -174.0
MAX_NODES_PER_BLOCK = 10
"""Limit of a proportional-fair simulation: more nodes would get too few blocks for a mean."""

_NUM_TTIS = 2000  # simulated: enough for means to within a percent
_WARM_UP_TTIS = 500  # before that, until the scheduler's means have settled
_LEAST_SINR_DB = -60.0  # far below what LTE can use
_Dbm = Annotated[float, Meta(ge=-200, le=100)]


class Cell(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An LTE cell: the ``[cell]`` table of a fleet file; `ValueError` for a value out of range.

    Attributes:
        scheduling: how nodes share the blocks; see `paceline.devices.lte_cell`.
        radius_metres: radius within which devices are placed at random.
        path_loss_exponent: α; our choice.
        interference_dbm: I, in each block; our choice.
        station_dbm: transmit power of the eNB, over all blocks.
        device_dbm: transmit power of a node, over its blocks.
        num_blocks: resource blocks of 180 kHz: LTE has 25 in 5 MHz, 50 in 10 and 100 in 20.
        window_ttis: averaging window of the scheduler, in TTIs of 1 ms; our choice.
        seed: seed of places and fading.
    """

    scheduling: Literal["proportional-fair", "equal"] = "proportional-fair"
    radius_metres: Positive = 500.0
    path_loss_exponent: Positive = 3.76
    interference_dbm: _Dbm = -103.0
    station_dbm: _Dbm = 30.0
    device_dbm: _Dbm = 10.0
    num_blocks: Annotated[int, Meta(ge=1, le=1000)] = 100
    window_ttis: Count = 100
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_fields(self)

    def place(self, name: str) -> float:
        """Draw the distance of a device in metres, uniformly over the disc, from the seed and its name."""
        # The square root makes equal areas equally likely.
        return self.radius_metres * math.sqrt(random.Random(f"cell {self.seed} {name}").random())

    def sinr(self, distance_metres: float, transmit_dbm: float, num_blocks: float) -> float:
        """Return the mean SINR in a block of a sender that uses so many; raises `ConfigError` if it is out of reach."""
        loss_db = 10 * self.path_loss_exponent * math.log10(max(distance_metres, 1.0))
        signal_dbm = transmit_dbm - 10 * math.log10(num_blocks) - loss_db
        noise_dbm = NOISE_DBM_PER_HERTZ + 10 * math.log10(BLOCK_HERTZ)
        disturbance_dbm = 10 * math.log10(_milliwatts(self.interference_dbm) + _milliwatts(noise_dbm))
        sinr_db = signal_dbm - disturbance_dbm
        if sinr_db < _LEAST_SINR_DB:
            raise ConfigError(
                f"a device {distance_metres:g} m away is out of the cell's reach: its signal is {-sinr_db:.0f} dB "
                f"below interference and noise; allowed: {-_LEAST_SINR_DB:g}"
            )
        return _milliwatts(sinr_db)


class CellRates(NamedTuple):
    """Download and upload rate of a node, in Mbit/s."""

    down_mbit: float
    up_mbit: float


class Scheduled(NamedTuple):
    """Result of a proportional-fair scheduler, for each node.

    Attributes:
        blocks: mean number of blocks, r.
        bits_per_hertz: rate, summed over the node's blocks, in bits per second and hertz of a block.
    """

    blocks: Array
    bits_per_hertz: Array


def rates(cell: Cell, distances_metres: Sequence[float]) -> list[CellRates]:
    """Return the rates of nodes that all send and receive; raises `ConfigError` for more than can be scheduled."""
    num_nodes = len(distances_metres)
    if cell.scheduling == "proportional-fair" and num_nodes > MAX_NODES_PER_BLOCK * cell.num_blocks:
        raise ConfigError(
            f"there are {num_nodes} devices in the cell; proportional-fair scheduling of {cell.num_blocks} blocks "
            f'allows {MAX_NODES_PER_BLOCK * cell.num_blocks}, scheduling = "equal" any number'
        )
    if not num_nodes:
        return []
    share = cell.num_blocks / num_nodes
    senders = ((cell.station_dbm, cell.num_blocks), (cell.device_dbm, max(share, 1.0)))
    both = []
    for seed, (transmit_dbm, num_blocks) in enumerate(senders):
        sinrs = [cell.sinr(distance, transmit_dbm, num_blocks) for distance in distances_metres]
        if cell.scheduling == "equal":
            bits_per_hertz = share * np.log1p(sinrs) / math.log(2)
        else:
            chance = np.random.default_rng((cell.seed, seed))
            bits_per_hertz = schedule(sinrs, cell.num_blocks, cell.window_ttis, chance).bits_per_hertz
        both.append((bits_per_hertz * (BLOCK_HERTZ / 1e6)).tolist())
    return [CellRates(*pair) for pair in zip(*both, strict=True)]


def schedule(sinrs: Sequence[float], num_blocks: int, window_ttis: int, chance: np.random.Generator) -> Scheduled:
    """Simulate a proportional-fair scheduler for nodes that always have something to send.

    Args:
        sinrs: mean SINR of each node in a block, over fading.
    """
    mean_sinrs = np.array(sinrs, np.float32)
    num_nodes = len(mean_sinrs)
    averages = np.log1p(mean_sinrs) * (num_blocks / num_nodes)  # by Eq. 3, which is not far off; in nats
    blocks, nats = np.zeros(num_nodes), np.zeros(num_nodes)
    for tti in range(-_WARM_UP_TTIS, _NUM_TTIS):
        fading = chance.standard_exponential((num_blocks, num_nodes), np.float32)
        possible = np.log1p(mean_sinrs * fading)
        winners = (possible / averages).argmax(1)
        served = np.bincount(winners, possible[np.arange(num_blocks), winners], num_nodes)
        averages += ((served - averages) / window_ttis).astype(np.float32)
        if tti >= 0:
            blocks += np.bincount(winners, minlength=num_nodes)
            nats += served
    return Scheduled(blocks / _NUM_TTIS, nats / (_NUM_TTIS * math.log(2)))


def _milliwatts(dbm: float) -> float:
    """Convert dBm to milliwatts; likewise, dB to a ratio."""
    return float(10 ** (dbm / 10))
