"""A gossip job: model, data and rules, known to every peer from the start."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Literal

import msgspec

from paceline import allocation
from paceline.allocation import AllocationPolicy
from paceline.allocation.gossip import AllDataAllocation
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.partitions import PartitionSpec
from paceline.learning.points import PointsSpec
from paceline.learning.tasks import OptimizerSpec
from paceline.topologies.gossip.graphs import GraphName, GraphSpec
from paceline.topologies.gossip.members import MAX_PARTS

TABLES = ("model", "optimizer", "data", "partition", "points", "allocation")
"""Fields of a gossip job that are tables of their own in its file; the others are its [gossip] table."""

_FINGERPRINT_BYTES = 8


class GossipJob(msgspec.Struct, frozen=True, kw_only=True):
    """What peers train, and by which rules; `ValueError` for what cannot be.

    Attributes:
        exchange: ``mixing``: after each epoch, every peer takes the models of its neighbours and mixes them with its
            own. ``push-sum`` (GoSGD): peers push their models to others at random, and nobody waits.
        epochs: that each peer trains.
        graph: who is whose neighbour in mixing.
        degree: of a ``regular`` graph.
        push_probability: of a push after a minibatch.
        overlaps: whether the next epoch is trained while the models of the last are still exchanged; mixing takes place
            an epoch late.
        compression: how models are sent in mixing: as they are, or as what changed, in steps of 8 bits; what is lost
            by that is made up for by the next ones.
        rank_epochs: how many epochs the ranks of aggregated points are used for, before they are found anew.
        order: in which the samples that are kept are trained: by their ranks, or ``shuffled``.
        ranks: whether sets of samples are ranked over ``all`` classes, or within each ``class``, so that none is left
            out.
        batch_size: samples per minibatch.
        min_peers: the first epoch begins when so many are there.
        probe_seconds: how often a peer looks after another, and tells it what it knows of the others.
        patience_seconds: how long a peer may be out of reach before it counts as gone.
        evaluate_samples: of the test data, that each peer tries its own model on after each epoch.
        seed: of everything that is drawn at random.
        points: None to keep samples at random where not all are trained.
        allocation: how much of its data each peer trains in an epoch.
    """

    exchange: Literal["mixing", "push-sum"] = "mixing"
    epochs: int = 10
    graph: GraphName = "ring"
    degree: int = 4
    push_probability: float = 0.02
    overlaps: bool = False
    compression: Literal["none", "int8"] = "none"
    rank_epochs: int = 1
    order: Literal["ranked", "shuffled"] = "shuffled"
    ranks: Literal["all", "class"] = "all"
    batch_size: int = 64
    min_peers: int = 2
    probe_seconds: float = 5.0
    patience_seconds: float = 5.0
    evaluate_samples: int = 1000
    seed: int = 0
    model: ModelSpec = ModelSpec(name="lenet-5")
    optimizer: OptimizerSpec = OptimizerSpec()
    data: DataSpec = DataSpec()
    partition: PartitionSpec = PartitionSpec()
    points: PointsSpec | None = None
    allocation: AllocationPolicy = AllDataAllocation()

    def __post_init__(self) -> None:
        for name in ("epochs", "degree", "rank_epochs", "batch_size", "min_peers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("probe_seconds", "patience_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if not 0 < self.push_probability <= 1:
            raise ValueError(f"push_probability is {self.push_probability}; it must be above 0 and at most 1")
        if min(self.evaluate_samples, self.seed) < 0:
            raise ValueError("evaluate_samples and seed must be at least 0")
        if self.exchange == "push-sum" and (self.overlaps or self.compression != "none"):
            raise ValueError(
                "overlaps and compression are for mixing; push-sum waits for nobody, and sends whole models"
            )
        if self.partition.replicas > MAX_PARTS:
            raise ValueError(f"replicas is {self.partition.replicas}; a peer holds at most {MAX_PARTS} parts")
        if self.allocation.decided_by != "peers":
            raise ValueError("this policy needs an orchestrator; peers decide by all-data or edge-gossip")

    @property
    def graph_spec(self) -> GraphSpec:
        """Who is whose neighbour, among peers that are living."""
        return GraphSpec(name=self.graph, degree=self.degree, seed=self.seed)

    def described(self) -> dict[str, Any]:
        """The tables of a job file that make this job, every default spelled out."""
        rules = {name: getattr(self, name) for name in self.__struct_fields__ if name not in TABLES}
        tables = {
            "gossip": rules,
            "model": msgspec.to_builtins(self.model),
            "optimizer": {"name": self.optimizer.name, **self.optimizer.options},
            "data": msgspec.to_builtins(self.data),
            "partition": msgspec.to_builtins(self.partition),
            "points": None if self.points is None else msgspec.to_builtins(self.points),
            "allocation": allocation.describe(self.allocation),
        }
        return {name: _without_none(table) for name, table in tables.items() if table is not None}

    @property
    def fingerprint(self) -> str:
        """What tells this job from another: peers of different ones cannot train together."""
        tables = self.described()
        tables["data"] = {"name": self.data.name}  # where a device keeps its data is its own business
        told = msgspec.json.encode(tables, order="deterministic")
        return hashlib.blake2b(told, digest_size=_FINGERPRINT_BYTES).hexdigest()


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None}
