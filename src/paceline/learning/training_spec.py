"""What a device needs to know to train. It comes from the network, so every field is checked."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import torch
from msgspec import Meta

from paceline import plugins
from paceline.checks import Count, NotNegative, check_fields
from paceline.errors import ConfigError
from paceline.learning import models
from paceline.learning.accelerators import Precision
from paceline.learning.datasets import Dataset
from paceline.learning.exchange import Exchange
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.preprocessing import Normalisation
from paceline.learning.shards import Array, Shard
from paceline.learning.tables import ArrayTable, Column, Table
from paceline.learning.tasks import TASKS, SupervisedTask, Task, TaskSpec
from paceline.learning.tasks.supervised import MAX_OUTPUTS, class_range, largest
from paceline.spelling import suggest

# Limits of what an orchestrator may ask: far beyond any job, and far below what would exhaust a device.
MAX_BATCH = 1 << 20
_MAX_COLUMNS = 256
_MAX_DIMENSIONS = 8
_MAX_NAME = 80
_MAX_VALUES = 1 << 24
_MAX_PARAMETERS = 1 << 30
_MAX_SEED = (1 << 63) - 1
_DTYPES = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64"),
)


class TrainingSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is trained, and how; `ConfigError` for more than a device may be asked to do.

    Attributes:
        name: name of the job; empty if there is only one.
        columns: columns of a sample.
        structure: what a batch is for the task: a ``tuple`` or a ``dict`` of tensors, or one ``tensor``.
        num_outputs: values that the model gives for a sample: classes, labels, numbers or tokens; 0 for a task that
            knows by itself.
        normalisation: what makes floats of mean 0 and variance 1 of the first column; None to leave it as it is.
        target_normalisation: the same for targets that are numbers.
        precision: see `Precision`.
        transform: import path of what changes batches before they are trained; empty for nothing.
        exchange: what of the model travels.
        base: digest of what does not, if there is any: a device that makes something else of it is sent this, see
            `OrchestratorService.base`, or is turned away.
        rounds: rounds, or epochs, of the job, for schedules.
        proximal_mu: strength of FedProx's proximal term; 0 for none.
        proximal_layers: layers that the term applies to; none for all.
        seed: seed of all random draws.
    """

    task: TaskSpec = TaskSpec()
    model: ModelSpec
    optimizer: OptimizerSpec
    columns: tuple[Column, ...]
    structure: Literal["tuple", "dict", "tensor"] = "tuple"
    num_outputs: Annotated[int, Meta(ge=0, le=MAX_OUTPUTS)] = 0
    normalisation: Normalisation | None = None
    target_normalisation: Normalisation | None = None
    batch_size: Annotated[int, Meta(ge=1, le=MAX_BATCH)]
    precision: Precision = "float32"
    transform: str = ""
    exchange: Exchange = "all"
    base: Annotated[str, Meta(max_length=64)] = ""
    rounds: Count = 1
    proximal_mu: NotNegative = 0.0
    proximal_layers: tuple[str, ...] = ()
    seed: Annotated[int, Meta(ge=0, le=_MAX_SEED)] = 0
    name: str = ""

    @classmethod
    def of(cls, job: Any, dataset: Dataset, **settings: Any) -> TrainingSpec:
        """Make the spec of a job, which has a task, a model, an optimizer, a batch size and a seed, on a dataset.

        Raises `ConfigError` if the data does not fit the task.
        """
        return cls.fitted(
            dataset,
            task=job.task,
            model=msgspec.structs.replace(job.model, start=None),  # a path of this machine
            optimizer=job.optimizer,
            batch_size=job.batch_size,
            precision=job.precision,
            seed=job.seed,
            transform=job.data.transform or "",
            **settings,
        )

    @classmethod
    def fitted(cls, dataset: Dataset, *, task: TaskSpec = TaskSpec(), **settings: Any) -> TrainingSpec:  # noqa: B008
        """Make a spec that is fitted to a dataset; raises `ConfigError` if that does not fit the task."""
        train = dataset.train
        fitted: dict[str, Any] = {"normalisation": Normalisation.of(train)}
        if task.built_in is not None:
            fitted = _fit(task, task.built_in, train, dataset.test)
        return cls(task=task, columns=train.columns, structure=train.structure, **{**fitted, **settings})

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= len(self.columns) <= _MAX_COLUMNS:
            raise ConfigError(f"samples have {len(self.columns)} columns; allowed: 1 to {_MAX_COLUMNS}")
        for column in self.columns:
            _check_column(column)
        num_values = sum(math.prod(column.shape) for column in self.columns)
        if num_values > _MAX_VALUES:
            raise ConfigError(f"a sample has {num_values} values; allowed: {_MAX_VALUES}, in all its columns")
        if self.transform:
            plugins.split_path(self.transform)
        if self.task.built_in is not None and self.num_outputs < 1:
            raise ConfigError("num_outputs is 0; a built-in task has at least 1")
        for column in self.class_columns:
            if np.dtype(column.dtype).kind not in "biu":
                raise ConfigError(f"column {column.name!r} is {column.dtype}; classes must be whole numbers")
        if self.task.import_path is not None and self.model.is_given:
            raise ConfigError("the task makes its own model: leave out name and import in [model]")
        self._check_size()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the first column of a sample."""
        return self.columns[0].shape

    @property
    def chosen_model(self) -> ModelSpec:
        """The model that the job names, or the usual one of a built-in task."""
        built_in = self.task.built_in
        return self.model if self.model.is_given or built_in is None else ModelSpec(name=built_in.default_model)

    @property
    def class_columns(self) -> dict[Column, int]:
        """Columns of class numbers, and their places."""
        built_in = self.task.built_in
        places = () if built_in is None else built_in.class_columns(_target_place(self.task, self.columns))
        return {self.columns[place]: place for place in places}

    @property
    def import_paths(self) -> tuple[str, ...]:
        """What a device has to import, and so to allow."""
        paths = (self.task.import_path, self.model.import_path, self.transform)
        return tuple(path for path in paths if path)

    def make_task(self, allowed: Collection[str] | None = ()) -> Task:
        """Make the task; raises `ConfigError` if it cannot be made, or is not allowed: then nothing is imported.

        Args:
            allowed: import paths that this device allows, see `plugins.load_object`; None for any.
        """
        built_in, path = self.task.built_in, self.task.import_path
        if built_in is not None:
            return built_in(self, allowed)
        kind = plugins.load_object(path, "task", allowed) if path else TASKS.find(self.task.kind)
        what = f"task {path or self.task.kind!r}"
        if not (isinstance(kind, type) and issubclass(kind, Task)):
            raise ConfigError(f"{what} is not a class derived from paceline.Task")
        made: Task = plugins.guarded(what, f"calling {kind.__name__}()", kind, **self.task.options)
        return made

    def rate_factor(self, task: Task, round: int) -> float:
        """Return what learning rates are multiplied by in a round or epoch, by the task and the optimizer."""
        return task.schedule(round, self.rounds) * self.optimizer.factor(round, self.rounds)

    def check(self, shard: Shard) -> None:
        """Raise `ConfigError` for samples that do not fit.

        Means of samples, as aggregated points are, fit as well: float32, where the first layer makes floats anyway.
        """
        if len(shard) != len(self.columns):
            raise ConfigError(f"a shard has {len(shard)} columns; the task has {len(self.columns)}")
        for place, (array, column) in enumerate(zip(shard, self.columns, strict=True)):
            is_mean = place == 0 and self.normalisation is not None and array.dtype == np.float32
            is_of_type = is_mean or array.dtype == np.dtype(column.dtype)
            if not array.ndim or not is_of_type or array.shape[1:] != column.shape:
                raise ConfigError(
                    f"a shard has {array.dtype} of shape {array.shape[1:]} in column {column.name!r}; "
                    f"the task wants {column.dtype} of shape {column.shape}"
                )
        if len(set(map(len, shard))) > 1 or not shard.num_samples:
            names = [column.name for column in self.columns]
            counts = " and ".join(f"{len(array)} of {name!r}" for array, name in zip(shard, names, strict=True))
            raise ConfigError(f"a shard has {counts}; it needs as many of each, and at least one")
        for column, place in self.class_columns.items():
            low, high = class_range(shard[place], self.task.built_in.ignored_class)  # type: ignore[union-attr]
            if low < 0 or high >= self.num_outputs:
                raise ConfigError(
                    f"a shard has values from {low} to {high} in column {column.name!r}; "
                    f"allowed: 0 to {self.num_outputs - 1}"
                )

    def zeros(self, num_samples: int) -> Shard:
        """Make samples of zeros, to try things out with."""
        return Shard(*(np.zeros((num_samples, *column.shape), column.dtype) for column in self.columns))

    @property
    def num_parameters(self) -> int | None:
        """Number of parameters of a named model; None of the user's own, which has to be made to be known."""
        if self.chosen_model.name is None:
            return None
        with torch.device("meta"):  # sizes alone: nothing is allocated, nothing drawn
            model = models.build(self.chosen_model, self.input_shape, self.num_outputs)
        return sum(parameter.numel() for parameter in model.parameters())

    def _check_size(self) -> None:
        num_parameters = self.num_parameters
        if num_parameters is not None and num_parameters > _MAX_PARAMETERS:
            raise ConfigError(
                f"model {self.chosen_model.name!r} would have {num_parameters} parameters for samples of shape "
                f"{self.input_shape} and {self.num_outputs} outputs; allowed: {_MAX_PARAMETERS}"
            )


def fitting(table: Table, spec: TrainingSpec) -> Table:
    """Return a device's own data in the types of a job's; raises `ConfigError` if it is not of that kind."""
    found, wanted = table.columns, spec.columns
    are_named = spec.structure != "dict" or [column.name for column in found] == [column.name for column in wanted]
    if (
        len(found) != len(wanted)
        or not are_named
        or not all(_fits(*pair, spec) for pair in zip(found, wanted, strict=True))
    ):
        raise ConfigError(f"the data has {_described(found)}; the job wants {_described(wanted)}")
    for column, place in spec.class_columns.items():
        highest = largest(table, place, spec.task.built_in.ignored_class)  # type: ignore[union-attr]
        if highest >= spec.num_outputs:
            raise ConfigError(
                f"the data has values up to {highest} in column {column.name!r}; the job wants them below "
                f"{spec.num_outputs}"
            )
    if [column.dtype for column in found] == [column.dtype for column in wanted]:
        return table
    arrays = zip(wanted, table.take(slice(None)), strict=True)
    return ArrayTable({column.name: _converted(array, column) for column, array in arrays}, spec.structure)


def _fits(found: Column, wanted: Column, spec: TrainingSpec) -> bool:
    """Return whether a column may become another: of the same shape, and both of whole numbers, or both of floats.

    Targets that are amounts may all be whole by chance.
    """
    is_whole, wants_whole = (np.dtype(column.dtype).kind in "biu" for column in (found, wanted))
    is_amount = spec.target_normalisation is not None and wanted == spec.columns[_target_place(spec.task, spec.columns)]
    return found.shape == wanted.shape and (is_whole == wants_whole or (is_whole and is_amount))


def _converted(array: Array, column: Column) -> Array:
    converted: Array = array.astype(column.dtype)
    if array.dtype.kind in "iu" and (converted != array).any():
        raise ConfigError(f"the data has values in {column.name!r} that do not fit {column.dtype}, the job's type")
    return converted


def _described(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name}: {column.dtype} of shape {column.shape}" for column in columns)


def _fit(task: TaskSpec, built_in: type[SupervisedTask], train: Table, test: Table) -> dict[str, Any]:
    """Fit what a built-in task takes from the data: its outputs, and how columns are standardised."""
    if built_in.needs_target and len(train.columns) < 2:
        raise ConfigError(f"{task.kind} takes samples with a target; these have one column, {train.columns[0].name!r}")
    target = _target_place(task, train.columns)
    has_one_input = len(train.columns) == 2 and target != 0
    least = built_in.count_outputs(train, test, target)
    outputs = least if task.outputs is None else task.outputs
    if outputs < least or (outputs > least and not built_in.class_columns(target)):
        allowed = f"at least {least}" if built_in.class_columns(target) else str(least)
        raise ConfigError(f"outputs of [task] is {outputs}; the data asks for {allowed}: leave it out, or change it")
    return {
        "num_outputs": outputs,
        "normalisation": Normalisation.of(train) if built_in.is_standardised and has_one_input else None,
        "target_normalisation": built_in.target_normalisation(train, target),
    }


def _target_place(task: TaskSpec, columns: tuple[Column, ...]) -> int:
    """Return the place of the column with the targets."""
    names = [column.name for column in columns]
    if task.target and task.target not in names:
        raise ConfigError(f"target is {task.target!r}; {suggest(task.target, names)}")
    return names.index(task.target) if task.target else -1


def _check_column(column: Column) -> None:
    shape = column.shape
    if len(column.name) > _MAX_NAME:
        raise ConfigError(
            f"column {_shown(column.name)} has a name of {len(column.name)} letters; allowed: {_MAX_NAME}"
        )
    if column.dtype not in _DTYPES:
        raise ConfigError(
            f"column {_shown(column.name)} is of type {_shown(column.dtype)}; {suggest(column.dtype, _DTYPES)}"
        )
    if len(shape) > _MAX_DIMENSIONS or min(shape, default=1) < 1:
        raise ConfigError(
            f"column {_shown(column.name)} has the shape {_shown(shape)}; allowed: at most {_MAX_DIMENSIONS} sizes of "
            "1 or more"
        )


def _shown(value: object) -> str:
    """Abbreviate a foreign value to a few words on one line."""
    short = reprlib.Repr()
    short.maxstring = short.maxtuple = 80
    return short.repr(value)
