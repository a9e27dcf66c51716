"""A split job: a model, where it is cut, what its sources see, and the rules by which its parts learn together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from paceline.checks import Count, CountOrZero, NotNegative, Positive, Seed, Spec, check_fields
from paceline.learning.accelerators import Precision
from paceline.learning.datasets import DataSpec
from paceline.learning.early_stopping import DEFAULT_WATCH, EarlyStopping
from paceline.learning.junction import JunctionSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.quantisation import Bits
from paceline.learning.scores import Scores
from paceline.learning.tasks import TaskSpec
from paceline.learning.tasks.classification import Classification
from paceline.learning.views import PAPER_VIEWS, ViewSpec
from paceline.topologies.base import JobSpec

AUTO = "auto"
"""Stands for the cut that is expected to learn fastest."""

MAX_DEPTH = 64

USUAL_MODEL = "leaf-cnn"
"""Model of a job that classifies and names none: its layers have names, so that a cut can be told by them."""

Depth: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_DEPTH)]
Scheme: TypeAlias = Literal["fpl", "split-learning", "images", "gfl"]


class AveragingSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What sources average that train a model each: the ``[averaging]`` table of a job.

    Attributes:
        layers: names of the layers that are averaged; none for all of them, which with a `mu` of 0 is FedAvg.
        mu: strength of FedProx's proximal term on these layers; 0 for none.
    """

    layers: tuple[str, ...] = ()
    mu: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self)


class SplitJob(JobSpec, frozen=True, kw_only=True):
    """What sources and trunk train together.

    Attributes:
        scheme: ``fpl``: branches at the sources, merged by a junction at the trunk. ``split-learning``: the same, but
            their outputs are concatenated. ``images``: sources send their images once, and the trunk trains one model
            on all. ``gfl``: each source trains a model of its own, and some of their layers are averaged.
        cut: the layer that the branches end before, or ``auto``.
        epochs: passes over the training data.
        batch_size: samples per minibatch.
        precision: type in which all compute the products of their training; a model that is spread over the nodes takes
            no ``float16``, since its parts would have to share the scale of their gradients.
        sources: training begins when so many have joined.
        depth: minibatches that a source may be ahead of the gradients; 1 learns exactly as one process would.
        bits: size of each value that sources and trunk send each other.
        patience_seconds: how long the others wait for a source before they go on without it.
        abandon_seconds: how long the trunk waits once nothing is heard of any source before it ends the run, which can
            be resumed.
        backup_epochs: how often the trunk takes copies of the branches, so that a source that has lost its own can come
            back, and a run that was interrupted can go on; 0 for never. At the end it takes them in any case.
        test_epochs: how often what was learned is tried on the test data.
        target: ends the run once reached, such as ``accuracy >= 0.97`` or ``loss <= 0.1``.
        patience: the run ends after so many tests without improvement of `watch`; None for never.
        watch: what has to improve, such as ``min loss`` or ``max accuracy``.
        view: what each source sees of a sample: the first joins with the first, and so on, again from the first if
            there are more sources.
        seed: seed of everything that is drawn at random.
    """

    table: ClassVar[str] = "split"
    tables: ClassVar[tuple[str, ...]] = ("task", "junction", "averaging", "model", "optimizer", "data", "view")

    scheme: Scheme = "fpl"
    cut: str = AUTO
    epochs: Count = 10
    batch_size: Count = 32
    precision: Precision = "float32"
    sources: Count = 5
    depth: Depth = 1
    bits: Bits = 32
    patience_seconds: Positive = 10.0
    abandon_seconds: Positive = 600.0
    backup_epochs: CountOrZero = 1
    test_epochs: Count = 1
    target: str | None = None
    patience: Count | None = None
    watch: str = DEFAULT_WATCH
    seed: Seed = 0
    junction: JunctionSpec = JunctionSpec()
    averaging: AveragingSpec = AveragingSpec()
    task: TaskSpec = TaskSpec()
    model: ModelSpec = ModelSpec()
    optimizer: OptimizerSpec = OptimizerSpec()
    data: DataSpec = DataSpec()
    view: tuple[ViewSpec, ...] = PAPER_VIEWS

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model.is_given and self.task.built_in is Classification:
            msgspec.structs.force_setattr(self, "model", msgspec.structs.replace(self.model, name=USUAL_MODEL))
        self.early_stopping()  # raises if it cannot be
        if not self.view:
            raise ValueError('there is no [[view]]; a source sees something, such as kind = "plain"')
        if self.scheme == "split-learning" and self.cut == AUTO:
            raise ValueError('cut is "auto", which weighs junctions; split-learning needs the name of a layer')
        if self.is_split and self.precision == "float16":
            raise ValueError(
                f'precision is "float16", but the parts of a model ({self.scheme}) cannot share the scale that its '
                'gradients need; allowed: "float32" and "bfloat16"'
            )

    def early_stopping(self, history: Iterable[Scores] = ()) -> EarlyStopping:
        """Begin to decide whether the run ends before its last epoch, or go on after tests with these scores."""
        return EarlyStopping(self.target, self.patience, self.watch, history)

    @property
    def has_copies(self) -> bool:
        """Whether the trunk has, at times, all that has been learned."""
        return self.scheme == "images" or self.backup_epochs > 0

    @property
    def merge(self) -> JunctionSpec | None:
        """The junction; None where outputs of branches are concatenated."""
        return self.junction if self.scheme == "fpl" else None

    @property
    def is_split(self) -> bool:
        """Whether the model itself is spread over the nodes."""
        return self.scheme in ("fpl", "split-learning")
