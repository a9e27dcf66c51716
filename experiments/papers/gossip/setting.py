"""The setting of EdgeGossip (Han et al., 2021, section 4.1 and 4.2): workloads, platforms, and the schemes compared.

The paper does not tell how fast its platforms are. What stands for that here is ours: a slow platform is as fast as a
core of the machine that the workloads were measured on, and the README of gossip-speedup says so.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from paceline.allocation.edge_gossip import EdgeGossipAllocation
from paceline.fleets.modelled import VirtualDevice
from paceline.learning.aggregated_points import PointsSpec
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.prepared import PreparedJob, prepare_job
from reproduction.trials import drawn_part

WHOLE_SAMPLES = 50_000  # that the paper trains on
RATE = 0.01  # of learning, in the paper
# Ours: what a platform's speed varies by from epoch to epoch. By the median of the last three epochs, it is then
# predicted to about 4 %, which is what the paper has beside other jobs (section 4.4).
SPEED_NOISE = 0.07
FAST, SLOW = 3.0, 1.0  # ours: speeds of the four platforms of the first deployment, two of each
FOUR = (FAST, FAST, SLOW, SLOW)
MAX_DRAWN = 5.0  # ours: in larger deployments, speeds are drawn from 1 to this, evenly by their logarithm


class Workload(NamedTuple):
    """A model and its data, and how fast a slow platform is with it; the speeds are ours, measured on one core.

    Attributes:
        samples_per_second: that it trains.
        aggregates_per_second: samples that it turns into points, by how they are reduced.
    """

    data: str
    samples_per_second: float
    aggregates_per_second: Mapping[str, float]


_MNIST = {"svd": 24_000.0, "incremental-svd": 105_000.0, "hash": 100_000.0}
_CIFAR = {"svd": 11_500.0, "incremental-svd": 12_000.0, "hash": 32_000.0}
WORKLOADS = {
    "lenet-5": Workload("mnist", 6000.0, _MNIST),
    "alexnet": Workload("cifar10", 600.0, _CIFAR),
    "squeezenet": Workload("cifar10", 270.0, _CIFAR),
    "mobilenet-v2": Workload("cifar10", 90.0, _CIFAR),
}
"""By the name of the model."""

WAYS = {"svd": "k-means", "incremental-svd": "lsh", "hash": "k-means"}
"""The three ways of aggregation: how samples are divided, by how they are reduced."""


class Link(NamedTuple):
    """Link of every platform, the same both ways."""

    mbit: float
    latency_ms: float


LINKS = {"data centre": Link(1000.0, 0.5), "edge": Link(30.0, 10.0)}
"""Ours; by name."""


class Size(NamedTuple):
    """How much is trained. Platforms are as many times slower as there are fewer samples than in the paper.

    Attributes:
        num_samples: to train on, of all platforms.
        batch_size: 64 in the paper.
    """

    num_samples: int
    num_test_samples: int
    epochs: int
    batch_size: int = 64


class Case(NamedTuple):
    """What schemes are tried on.

    Attributes:
        workload: one of `WORKLOADS`.
        speeds: of the platforms, over that of a slow one.
        link: one of `LINKS`.
    """

    workload: str
    size: Size
    seed: int
    speeds: tuple[float, ...] = FOUR
    link: str = "data centre"


def points(way: str = "svd", ratio: int = 10) -> PointsSpec:
    """Return how points are aggregated; 10 is the paper's ratio."""
    return PointsSpec(reduction=way, division=WAYS[way], ratio=ratio)


def edge_gossip(way: str = "svd", ratio: int = 10, **changes: Any) -> dict[str, Any]:
    """Return the rules of EdgeGossip: balanced, points ranked within each class, and what is kept in random order."""
    rules = {"allocation": EdgeGossipAllocation(), "points": points(way, ratio), "order": "shuffled", "ranks": "class"}
    return {**rules, **changes}


def sgd(rate: float = RATE) -> OptimizerSpec:
    """Return the paper's optimizer, at this learning rate."""
    return OptimizerSpec(name="SGD", options={"lr": rate, "momentum": 0.9})


def drawn_speeds(count: int, seed: int) -> tuple[float, ...]:
    """Draw the speeds of so many platforms; the first ones are the same whatever their number."""
    chance = random.Random(f"speeds of trial {seed}")
    return tuple(MAX_DRAWN ** chance.random() for _ in range(count))


def job_of(case: Case, rules: Mapping[str, Any], data: DataSpec) -> GossipJob:
    """Build the paper's job, by these rules."""
    fields: dict[str, Any] = {
        "epochs": case.size.epochs,
        "batch_size": case.size.batch_size,
        "min_peers": len(case.speeds),
        "evaluate_samples": 0,  # the average of all is evaluated, which costs enough
        "seed": case.seed,
        "model": ModelSpec(name=case.workload),
        "optimizer": sgd(),
        "data": data,
        **rules,
    }
    return GossipJob(**fields)


@functools.lru_cache(maxsize=1)
def base_job(workload: str, size: Size, seed: int) -> PreparedJob:
    """Prepare a job with a part of the data, drawn anew for each seed; the rules of a scheme are put in later."""
    case = Case(workload, size, seed)
    whole = DataSpec(name=WORKLOADS[workload].data)
    with drawn_part(whole, num_samples=size.num_samples, num_test_samples=size.num_test_samples, seed=seed) as data:
        return prepare_job(job_of(case, {}, data))


def devices_of(case: Case, way: str) -> list[VirtualDevice]:
    """Build the platforms, which aggregate in this way."""
    workload, link = WORKLOADS[case.workload], LINKS[case.link]
    scale = case.size.num_samples / WHOLE_SAMPLES
    return [
        VirtualDevice(
            name=f"platform-{number:02}",
            samples_per_second=workload.samples_per_second * speed * scale,
            aggregates_per_second=workload.aggregates_per_second[way] * speed * scale,
            down_mbit=link.mbit,
            up_mbit=link.mbit,
            latency_ms=link.latency_ms,
            speed_noise=SPEED_NOISE,
        )
        for number, speed in enumerate(case.speeds)
    ]
