"""A gossip job: model, data and rules, known to every peer from the start."""

from __future__ import annotations

import hashlib
from typing import ClassVar, Literal

import msgspec

from paceline.allocation import AllocationPolicy
from paceline.allocation.edge_gossip import AllDataAllocation, BalancingPolicy
from paceline.checks import Count, CountOrZero, Positive, PositiveRatio, Seed
from paceline.learning.accelerators import Precision
from paceline.learning.aggregated_points import PointsSpec
from paceline.learning.datasets import DataSpec
from paceline.learning.early_stopping import DEFAULT_WATCH, EarlyStopping
from paceline.learning.exchange import Exchange
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.partitions import PartitionSpec
from paceline.learning.tasks import TaskSpec
from paceline.topologies.base import JobSpec
from paceline.topologies.gossip.graphs import GraphName, GraphSpec
from paceline.topologies.gossip.membership import MAX_PARTS

_FINGERPRINT_BYTES = 8


class GossipJob(JobSpec, frozen=True, kw_only=True):
    """What peers train, and by which rules; `ValueError` for what cannot be.

    Attributes:
        exchange: ``mixing``: after each epoch, every peer takes the models of its neighbours and mixes them with its
            own. ``push-sum`` (GoSGD): peers push their models to others at random, and nobody waits.
        sends: what of the model travels between peers; the rest stays with each.
        epochs: number of epochs that each peer trains.
        graph: who is whose neighbour in mixing.
        degree: number of neighbours in a ``regular`` graph.
        push_probability: probability of a push after a minibatch.
        overlaps: whether the next epoch is trained while the models of the last are still exchanged; mixing takes place
            an epoch late.
        compression: how models are sent in mixing: as they are, or as what changed, in steps of 8 bits; what is lost
            by that is made up for by the next ones.
        rank_epochs: how many epochs the ranks of aggregated points are used for, before they are found anew.
        order: order in which the samples that are kept are trained: by their ranks, or ``shuffled``.
        ranks: whether sets of samples are ranked over ``all`` classes, or within each ``class``, so that none is left
            out.
        batch_size: samples per minibatch.
        precision: type in which peers compute the products of their training.
        min_peers: the first epoch begins when so many are there.
        probe_seconds: how often a peer probes another, and exchanges with it what both know of the others.
        patience_seconds: how long a peer may be out of reach before it counts as gone.
        evaluate_samples: number of test samples that each peer tries its own model on after each epoch.
        target: each peer is for ending the run once its own model reaches this, such as ``accuracy >= 0.97``; it ends
            when more than half of the living are for that.
        patience: a peer is for it, too, after so many epochs without improvement of `watch`; None for never.
        watch: what has to improve, such as ``min loss`` or ``max accuracy``.
        seed: seed of everything that is drawn at random.
        points: None to keep samples at random where not all are trained.
        allocation: how much of its data each peer trains in an epoch.
    """

    table: ClassVar[str] = "gossip"
    tables: ClassVar[tuple[str, ...]] = ("task", "model", "optimizer", "data", "partition", "points", "allocation")

    exchange: Literal["mixing", "push-sum"] = "mixing"
    sends: Exchange = "all"
    epochs: Count = 10
    graph: GraphName = "ring"
    degree: Count = 4
    push_probability: PositiveRatio = 0.02
    overlaps: bool = False
    compression: Literal["none", "int8"] = "none"
    rank_epochs: Count = 1
    order: Literal["ranked", "shuffled"] = "shuffled"
    ranks: Literal["all", "class"] = "all"
    batch_size: Count = 64
    precision: Precision = "float32"
    min_peers: Count = 2
    probe_seconds: Positive = 5.0
    patience_seconds: Positive = 5.0
    evaluate_samples: CountOrZero = 1000
    target: str | None = None
    patience: Count | None = None
    watch: str = DEFAULT_WATCH
    seed: Seed = 0
    task: TaskSpec = TaskSpec()
    model: ModelSpec = ModelSpec()
    optimizer: OptimizerSpec = OptimizerSpec()
    data: DataSpec = DataSpec()
    partition: PartitionSpec = PartitionSpec()
    points: PointsSpec | None = None
    allocation: AllocationPolicy = AllDataAllocation()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exchange == "push-sum" and (self.overlaps or self.compression != "none"):
            raise ValueError(
                "overlaps and compression are for mixing; push-sum waits for nobody, and sends whole models"
            )
        self.early_stopping()  # raises if it cannot be
        if self.may_end_early and not self.evaluate_samples:
            raise ValueError("target and patience need evaluate_samples, which is 0; peers try their models on those")
        self.partition.check_task(self.task)
        if self.partition.replicas > MAX_PARTS:
            raise ValueError(f"replicas is {self.partition.replicas}; a peer holds at most {MAX_PARTS} parts")
        if not isinstance(self.allocation, BalancingPolicy):
            raise ValueError("this policy is for an orchestrator; peers decide by all-data or edge-gossip")

    @property
    def may_end_early(self) -> bool:
        """Whether peers may find that they have learned enough."""
        return self.target is not None or self.patience is not None

    def early_stopping(self) -> EarlyStopping:
        """Begin to decide whether a peer is for ending the run."""
        return EarlyStopping(self.target, self.patience, self.watch)

    @property
    def graph_spec(self) -> GraphSpec:
        """Graph that the living peers form."""
        return GraphSpec(name=self.graph, degree=self.degree, seed=self.seed)

    @property
    def fingerprint(self) -> str:
        """Digest by which peers recognise the same job: those of different ones cannot train together."""
        tables = self.described()
        tables["data"] = {"name": self.data.name}  # where a device keeps its data is its own business
        encoded = msgspec.json.encode(tables, order="deterministic")
        return hashlib.blake2b(encoded, digest_size=_FINGERPRINT_BYTES).hexdigest()
