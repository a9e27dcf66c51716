"""The devices of the experiments with MEL: modelled, on an 802.11-like channel.

After Mohammad and Sorour, "Adaptive Task Allocation for Asynchronous Federated Mobile Edge Learning" (2019), Eq. 1 to 5
and section V: learners within 50 m indoors, half of them like a desktop, half like a Raspberry Pi. A link's rate is

    R = W·log2(1 + P·h/N0)   bits per second,

with bandwidth W, transmit power P, gain h and noise power N0, the same both ways. With f operations per second, Cm
operations per sample and epoch, and bits per sample and per model, a cycle takes c2·τ·d + c1·d + c0 seconds, where

    c2 = Cm/f,   c1 = sample bits/R,   c0 = 2·model bits/R;

c1 is 0 if the data is on the device already (the paper's distributed datasets).

The paper gives the 50 m, the two kinds of device, Cm and the model's size, and leaves the channel to a table elsewhere.
The constants that are ours are marked so. The choice of the gain is ours, too: IEEE 802.11 TGn channel model D, a
typical office (V. Erceg et al., "TGn Channel Models", IEEE 802.11-03/940r4, 2004): free space up to a breakpoint at
10 m, then 35 dB per decade, shadowed by a log-normal factor of 3 dB before and 5 dB after it (these two were not
checked against the document). Fast fading is left out: a cycle averages over it.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal, TypeAlias

from paceline.checks import Positive, check_fields
from paceline.errors import ConfigError

Scenario: TypeAlias = Literal["task-parallelization", "distributed-datasets"]
"""Whether samples are sent in each cycle, or are on the device already."""

LIGHT_METRES_PER_SECOND = 299_792_458.0


@dataclass(frozen=True, kw_only=True)
class Channel:
    """A wireless channel, the same for all devices; each has a band of its own.

    Attributes:
        bandwidth_hertz: W, per device.
        transmit_dbm: P, both ways.
        noise_dbm_per_hertz: density of the noise; N0 is this times W.
        carrier_hertz: ours: the 2.4 GHz band.
        breakpoint_metres: where free space ends; model D's.
        far_exponent: of the loss beyond the breakpoint; model D's.
        near_shadow_db: standard deviation of the shadowing before the breakpoint; model D's.
        far_shadow_db: the same beyond it; model D's.
        radius_metres: devices are within this.
        min_distance_metres: ours: nearer than this, a device counts as so far.
    """

    bandwidth_hertz: Positive = 5e6
    transmit_dbm: float = 23.0
    noise_dbm_per_hertz: float = -174.0
    carrier_hertz: Positive = 2.4e9
    breakpoint_metres: Positive = 10.0
    far_exponent: float = 3.5
    near_shadow_db: float = 3.0
    far_shadow_db: float = 5.0
    radius_metres: Positive = 50.0
    min_distance_metres: Positive = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def loss_db(self, distance_metres: float) -> float:
        """Return the mean path loss at a distance, without shadowing."""
        distance = max(distance_metres, self.min_distance_metres)
        near = min(distance, self.breakpoint_metres)
        free = 20 * math.log10(4 * math.pi * near * self.carrier_hertz / LIGHT_METRES_PER_SECOND)
        return free + 10 * self.far_exponent * math.log10(distance / near)

    def bytes_per_second(self, loss_db: float) -> float:
        """Return the rate of a link with this loss, R in bytes."""
        noise_dbm = self.noise_dbm_per_hertz + 10 * math.log10(self.bandwidth_hertz)
        ratio = 10 ** ((self.transmit_dbm - loss_db - noise_dbm) / 10)
        return self.bandwidth_hertz * math.log2(1 + ratio) / 8

    def shadow_db(self, distance_metres: float) -> float:
        """Return the standard deviation of the shadowing at a distance."""
        return self.near_shadow_db if distance_metres <= self.breakpoint_metres else self.far_shadow_db


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is learned; the defaults are the paper's MNIST network of 784, 300, 124, 60 and 10 units.

    Attributes:
        operations: per sample and local epoch, forth and back, Cm; a device does one per clock cycle.
        model_bits: 280,440 weights of 32 bits.
        sample_bits: ours: 784 pixels of 8 bits, as MNIST has them; the paper does not say.
    """

    operations: float = 1_123_736
    model_bits: float = 8_974_080
    sample_bits: float = 784 * 8


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """Seconds of a cycle: `c2` per sample and local epoch, `c1` per sample, `c0` in all."""

    c2: float
    c1: float
    c0: float


@dataclass(frozen=True, kw_only=True)
class Node:
    """A modelled device.

    Attributes:
        distance_metres: to the orchestrator.
        hertz: clock cycles per second of its processor, f.
        bytes_per_second: of its link, both ways.
    """

    name: str
    distance_metres: float
    hertz: float
    bytes_per_second: float

    def samples_per_second(self, workload: Workload) -> float:
        """Return how many samples the device trains per second in one local epoch."""
        return self.hertz / workload.operations

    def coefficients(self, workload: Workload, scenario: Scenario) -> Coefficients:
        """Return what a cycle takes on this device."""
        bits_per_second = 8 * self.bytes_per_second
        sent_bits = workload.sample_bits if scenario == "task-parallelization" else 0.0
        return Coefficients(
            c2=1 / self.samples_per_second(workload),
            c1=sent_bits / bits_per_second,
            c0=2 * workload.model_bits / bits_per_second,
        )


DESKTOP_HERTZ = 2.4e9
PI_HERTZ = 700e6


def place_nodes(count: int, seed: int, channel: Channel | None = None) -> list[Node]:
    """Place devices evenly over the disc around the orchestrator, desktops and Pis alternating.

    The first devices of a seed are the same however many there are.
    """
    if count < 1:
        raise ConfigError(f"count is {count}; there must be at least one device")
    model = channel or Channel()
    return [_place(index, seed, model) for index in range(count)]


def _place(index: int, seed: int, channel: Channel) -> Node:
    chance = random.Random(f"channel {seed} {index}")
    # The square root makes equal areas equally likely.
    distance = channel.radius_metres * math.sqrt(chance.random())
    loss = channel.loss_db(distance) + chance.gauss(0.0, channel.shadow_db(distance))
    is_desktop = index % 2 == 0
    return Node(
        name=f"{'desktop' if is_desktop else 'pi'}-{index // 2 + 1}",
        distance_metres=distance,
        hertz=DESKTOP_HERTZ if is_desktop else PI_HERTZ,
        bytes_per_second=channel.bytes_per_second(loss),
    )
