"""A split job made ready: its data, its model as a chain, and what its parts will be like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.averaging import State
from paceline.learning.chain import Chain
from paceline.learning.datasets import Dataset
from paceline.learning.model_parts import Operations, make_chain, operations_of, sizes
from paceline.learning.starts import make_model
from paceline.learning.tasks import Task
from paceline.learning.training_spec import TrainingSpec
from paceline.spelling import suggest
from paceline.topologies.reporting.shared import check_metric_names
from paceline.topologies.split.jobs import AUTO, SplitJob
from paceline.topologies.split.messages import SplitTerms
from paceline.topologies.split.schedule import PART_SAMPLES
from paceline.topologies.split.tables import SplitTables

MAX_JUNCTION_PARAMETERS = 100_000_000
"""Largest junction that is considered where the cut is to be chosen; for a larger one, the job must name the cut."""

_FLOAT_BYTES = 4
_COPY_BYTES = 5  # of a copy, for each byte of a model: optimizers remember up to four values of a parameter


@dataclass(frozen=True, kw_only=True)
class PreparedSplit:
    """A split job with all that its trunk needs.

    Attributes:
        cuts: where the model may be cut: where the job says, or all places that are to be weighed.
        num_layers: layers of a branch that learn, by cut.
        shapes: shape of what each layer takes, for one sample.
        operations: operations of the whole model for one sample.
        metric_names: metrics that it is evaluated by.
        start: parameters that the model starts with; None for initial ones, which all make by themselves.
    """

    job: SplitJob
    training: TrainingSpec
    dataset: Dataset
    cuts: tuple[str, ...]
    num_layers: dict[str, int]
    shapes: dict[str, tuple[int, ...]]
    model_bytes: int
    operations: Operations
    metric_names: tuple[str, ...]
    start: State | None = None

    @property
    def max_message_bytes(self) -> int:
        """Most bytes that a source sends at once: its parameters, or what it makes of a minibatch or of images."""
        num_samples = max(self.job.batch_size + 1, PART_SAMPLES)
        widest = max(math.prod(self.shapes[cut]) for cut in (*self.cuts, next(iter(self.shapes))))
        return max(_COPY_BYTES * self.model_bytes, _FLOAT_BYTES * num_samples * widest)

    def chain(self) -> Chain:
        """Build the model with the parameters that it starts with."""
        return make_chain(self.training, None, self.start)

    def terms(self, number: int, cuts: Sequence[str], first_epoch: int = 1) -> SplitTerms:
        """Return what the source of this number needs to know."""
        job = self.job
        return SplitTerms(
            training=self.training,
            scheme=job.scheme,
            cuts=tuple(cuts),
            epochs=job.epochs,
            num_samples=len(self.dataset.train),
            num_test_samples=len(self.dataset.test),
            depth=job.depth,
            bits=job.bits,
            backup_epochs=job.backup_epochs,
            test_epochs=job.test_epochs,
            data=job.data.name or "",
            reading=job.data.reading,
            view=job.view[(number - 1) % len(job.view)],
            layers=job.averaging.layers,
            first_epoch=first_epoch,
        )

    def num_parameters(self, cut: str, sources: Sequence[str]) -> dict[str, int]:
        """Count parameters by part; where sources have whole models, ``branch`` is one of these."""
        chain = self.chain()
        if self.job.is_split:
            return sizes(chain, cut, sources, self.job.merge)
        whole = sum(parameter.numel() for layer in chain.layers.values() for parameter in layer.parameters())
        is_at_trunk = self.job.scheme == "images"
        return {"branch": 0 if is_at_trunk else whole, "junction": 0, "trunk": whole if is_at_trunk else 0}


def prepare_split(job: SplitJob) -> PreparedSplit:
    """Load a job's data, build its model and see where it can be cut; raises `ConfigError`."""
    dataset = datasets.load(job.data)
    model = make_model(
        job, dataset, rounds=job.epochs, proximal_mu=job.averaging.mu, proximal_layers=job.averaging.layers
    )
    training = model.spec
    _check_task(job, model.task)
    metric_names = model.metric_names
    check_metric_names(metric_names, SplitTables({}).tables())
    job.early_stopping().check(metric_names)
    chain = make_chain(training, None)
    for layer in job.averaging.layers:
        if layer not in chain.layers:
            raise ConfigError(f"[averaging] layers has {layer!r}; {suggest(layer, chain.layers)}")
    parameters = [parameter for layer in chain.layers.values() for parameter in layer.parameters()]
    cuts = _cuts(job, chain)
    return PreparedSplit(
        job=job,
        training=training,
        dataset=dataset,
        cuts=cuts,
        num_layers={cut: sum(map(_learns, chain.before(cut))) for cut in cuts},
        shapes=chain.shapes,
        model_bytes=sum(parameter.nbytes for parameter in parameters),
        operations=operations_of(chain, training),
        metric_names=metric_names,
        start=None if job.model.start is None else model.state(),
    )


def _check_task(job: SplitJob, task: Task) -> None:
    """Raise `ConfigError` for what a task of the user's decides, but parts of a model cannot follow."""
    if job.data.transform is not None and job.is_split:
        raise ConfigError(
            f"transform {job.data.transform!r} changes batches of samples and labels, which no part of a model that is "
            "cut has together: leave it out, or choose the scheme gfl or images"
        )
    if job.is_split and type(task).optimizer is not Task.optimizer:
        raise ConfigError(
            f"task {job.task.import_path or job.task.kind!r} has optimizer() of its own, but the parts of a model that "
            "is cut are trained as [optimizer] says: leave it out, or choose the scheme gfl or images"
        )


def _cuts(job: SplitJob, chain: Chain) -> tuple[str, ...]:
    if not job.is_split:
        return ()
    names = [f"source {number}" for number in range(job.sources)]
    if job.cut != AUTO:
        sizes(chain, job.cut, names, job.merge)  # raises if something is wrong with it
        return (job.cut,)
    # Cuts elsewhere differ by a ReLU or the like; and with nothing to learn before it, a source would send its samples.
    declared = [cut for cut in chain.cuts if _learns(chain.layers[cut]) and _learns(chain.before(cut))]
    small = [cut for cut in declared if sizes(chain, cut, names, job.merge)["junction"] <= MAX_JUNCTION_PARAMETERS]
    if not small:
        raise ConfigError(f"every junction would have more than {MAX_JUNCTION_PARAMETERS:,} parameters; name a cut")
    return tuple(small)


def _learns(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None
