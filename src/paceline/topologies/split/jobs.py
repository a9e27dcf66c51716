"""A split job: a model, where it is cut, what its sources see, and the rules by which its parts learn together."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import msgspec

from paceline.learning.coding import Bits
from paceline.learning.datasets import DataSpec
from paceline.learning.junction import JunctionSpec
from paceline.learning.models import ModelSpec
from paceline.learning.tasks import OptimizerSpec
from paceline.learning.views import PAPER_VIEWS, ViewSpec

TABLES = ("junction", "averaging", "model", "optimizer", "data", "view")
"""Fields of a split job that are tables of their own in its file; the others are its [split] table."""

AUTO = "auto"
"""As a cut: the one that is expected to be the fastest."""

MAX_DEPTH = 64

Scheme: TypeAlias = Literal["fpl", "split-learning", "images", "gfl"]


class AveragingSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What sources average that train a model each: the ``[averaging]`` table of a job.

    Attributes:
        layers: of the model; none for all of them, which with a `mu` of 0 is FedAvg.
        mu: the strength of FedProx's hold on these layers; 0 for none.
    """

    layers: tuple[str, ...] = ()
    mu: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.mu < math.inf:
            raise ValueError(f"mu is {self.mu}; it must be at least 0")


class SplitJob(msgspec.Struct, frozen=True, kw_only=True):
    """What sources and trunk train together; `ValueError` for what cannot be.

    Attributes:
        scheme: ``fpl``: branches at the sources, merged by a junction at the trunk. ``split-learning``: the same, but
            their outputs are put side by side. ``images``: sources send their images once, and the trunk trains one
            model on all. ``gfl``: each source trains a model of its own, and some of their layers are averaged.
        cut: the layer that the branches end before, or ``auto``.
        sources: training begins when so many have joined.
        depth: minibatches that a source may be ahead of the gradients; 1 learns exactly as one process would.
        bits: of each value that is sent between sources and trunk.
        patience_seconds: how long the others wait for a source before they go on without it.
        backup_epochs: how often the trunk takes copies of the branches, so that a source that has lost its own can come
            back; 0 for never. At the end it takes them in any case.
        test_epochs: how often what was learned is tried on the test data.
        stop_epochs: the run ends when the loss on the test data has not fallen in so many tests; 0 for never.
        target_accuracy: ends the run once reached, as a ratio.
        views: what each source sees of a sample: the first joins with the first, and so on, again from the first if
            there are more sources.
        seed: of everything that is drawn at random.
    """

    scheme: Scheme = "fpl"
    cut: str = AUTO
    epochs: int = 10
    batch_size: int = 32
    sources: int = 5
    depth: int = 1
    bits: Bits = 32
    patience_seconds: float = 10.0
    backup_epochs: int = 1
    test_epochs: int = 1
    stop_epochs: int = 0
    target_accuracy: float | None = None
    seed: int = 0
    junction: JunctionSpec = JunctionSpec()
    averaging: AveragingSpec = AveragingSpec()
    model: ModelSpec = ModelSpec(name="leaf-cnn")
    optimizer: OptimizerSpec = OptimizerSpec()
    data: DataSpec = DataSpec()
    view: tuple[ViewSpec, ...] = PAPER_VIEWS

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "sources", "depth", "test_epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("backup_epochs", "stop_epochs", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0")
        if self.depth > MAX_DEPTH:
            raise ValueError(f"depth is {self.depth}; allowed: 1 to {MAX_DEPTH}")
        if not 0 < self.patience_seconds < math.inf:
            raise ValueError(f"patience_seconds is {self.patience_seconds}; it must be above 0")
        if self.target_accuracy is not None and not 0 < self.target_accuracy <= 1:
            raise ValueError(f"target_accuracy is {self.target_accuracy}; it must be above 0 and at most 1")
        if not self.view:
            raise ValueError('there is no [[view]]; a source sees something, such as kind = "plain"')
        if self.scheme == "split-learning" and self.cut == AUTO:
            raise ValueError('cut is "auto", which weighs junctions; split-learning needs the name of a layer')

    @property
    def merge(self) -> JunctionSpec | None:
        """The junction; None where branches are put side by side."""
        return self.junction if self.scheme == "fpl" else None

    @property
    def is_split(self) -> bool:
        """Whether the model itself is spread over the nodes."""
        return self.scheme in ("fpl", "split-learning")

    def described(self) -> dict[str, Any]:
        """The tables of a job file that make this job, every default spelled out."""
        rules = {name: getattr(self, name) for name in self.__struct_fields__ if name not in TABLES}
        tables: dict[str, Any] = {
            "split": rules,
            "junction": msgspec.to_builtins(self.junction),
            "averaging": msgspec.to_builtins(self.averaging),
            "model": msgspec.to_builtins(self.model),
            "optimizer": {"name": self.optimizer.name, **self.optimizer.options},
            "data": msgspec.to_builtins(self.data),
        }
        told = {
            name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()
        }
        return {**told, "view": msgspec.to_builtins(self.view)}
