"""Tasks: what a device needs to know to train. They come from the network, so every field is checked."""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias

import msgspec
import torch
from msgspec import Meta

from paceline.checks import NotNegative, check_fields
from paceline.errors import ConfigError, in_one_line
from paceline.learning import models
from paceline.learning.accelerators import Precision
from paceline.learning.datasets import Dataset, Normalisation
from paceline.learning.models import ModelSpec
from paceline.learning.npz import MAX_CLASSES
from paceline.spelling import suggest

# Limits of what an orchestrator may ask: far beyond any job, and far below what would exhaust a device.
_MAX_BATCH = 1 << 20
_MAX_DIMENSIONS = 8
_MAX_INPUT_VALUES = 1 << 24
_MAX_PARAMETERS = 1 << 30
_MAX_SEED = (1 << 63) - 1
_MAX_OPTION_VALUES = 8

# LBFGS calls the model back several times a step, which cannot be halted in between. Muon trains matrices only, and
# no biases; SparseAdam wants sparse gradients, which no model here has.
_UNFIT = ("LBFGS", "Muon", "SparseAdam")

Option: TypeAlias = bool | int | float | str | list[float]
"""Value of an optimizer's option."""


_DEFAULT_OPTIONS: dict[str, Option] = {"lr": 0.1}


def _optimizers() -> dict[str, type[torch.optim.Optimizer]]:
    found = inspect.getmembers(torch.optim, inspect.isclass)
    base = torch.optim.Optimizer
    return {name: kind for name, kind in found if issubclass(kind, base) and kind is not base and name not in _UNFIT}


OPTIMIZERS = _optimizers()


class OptimizerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Optimizer of torch.optim, made anew for each round; `ValueError` if it cannot be made or used.

    Attributes:
        name: name in torch.optim, such as ``SGD`` or ``Adam``.
        options: keyword arguments, such as ``lr``.
    """

    name: str = "SGD"
    options: dict[str, Option] = msgspec.field(default_factory=lambda: dict(_DEFAULT_OPTIONS))

    def __post_init__(self) -> None:
        check_fields(self)
        if self.name not in OPTIMIZERS:
            raise ValueError(f"optimizer {_shown(self.name)} is unknown; {suggest(self.name, OPTIMIZERS)}")
        known = [*inspect.signature(OPTIMIZERS[self.name]).parameters][1:]
        for option, value in self.options.items():
            if option not in known:
                raise ValueError(f"{self.name} has no option {_shown(option)}; {suggest(option, known)}")
            _check_value(f"{self.name}: {option}", value)
        if (self.name, self.options) == ("SGD", _DEFAULT_OPTIONS):
            return  # known to work; a trial would load a good part of torch, and an orchestrator needs none of it
        try:
            self.try_out()
        except Exception as error:  # whatever torch raises, here or in a step
            given = ", ".join(f"{option} = {_shown(value)}" for option, value in self.options.items())
            raise ValueError(f"{self.name} does not work with {given}: {in_one_line(error)}") from error

    def make(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """Make the optimizer for a model's parameters."""
        make: Any = OPTIMIZERS[self.name]
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in self.options.items()}
        return make(parameters, **options)  # type: ignore[no-any-return]

    def try_out(self) -> None:
        """Take a tiny step: it reveals wrong values, and makes torch load what steps need."""
        parameter = torch.nn.Parameter(torch.zeros(1))
        parameter.grad = torch.zeros(1)
        self.make([parameter]).step()


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is trained, and how; `ConfigError` for more than a device may be asked to do.

    Attributes:
        name: name of the job; empty if there is only one.
        input_shape: shape of one sample.
        precision: see `Precision`.
        proximal_mu: strength of FedProx's proximal term; 0 for none.
        proximal_layers: layers that the term applies to; none for all.
        seed: seed of all random draws.
    """

    model: ModelSpec
    optimizer: OptimizerSpec
    normalisation: Normalisation
    input_shape: tuple[int, ...]
    num_classes: Annotated[int, Meta(ge=1, le=MAX_CLASSES)]
    batch_size: Annotated[int, Meta(ge=1, le=_MAX_BATCH)]
    precision: Precision = "float32"
    proximal_mu: NotNegative = 0.0
    proximal_layers: tuple[str, ...] = ()
    seed: Annotated[int, Meta(ge=0, le=_MAX_SEED)] = 0
    name: str = ""

    @classmethod
    def of(cls, job: Any, dataset: Dataset, **settings: Any) -> Task:
        """Make the task of a job, which has a model, an optimizer, a batch size and so on, on a dataset."""
        return cls(
            model=job.model,
            optimizer=job.optimizer,
            batch_size=job.batch_size,
            precision=job.precision,
            seed=job.seed,
            normalisation=dataset.normalisation,
            input_shape=dataset.input_shape,
            num_classes=dataset.num_classes,
            **settings,
        )

    def __post_init__(self) -> None:
        check_fields(self)
        self._check_shape()
        self._check_size()

    def _check_shape(self) -> None:
        shape, num_channels = self.input_shape, len(self.normalisation.mean)
        is_possible = 1 <= len(shape) <= _MAX_DIMENSIONS and min(shape) >= 1
        if not is_possible or math.prod(shape) > _MAX_INPUT_VALUES:
            raise ConfigError(
                f"input_shape is {_shown(shape)}; allowed: 1 to {_MAX_DIMENSIONS} sizes of 1 or more, "
                f"{_MAX_INPUT_VALUES} values in all"
            )
        if num_channels not in (1, shape[0]):
            raise ConfigError(
                f"the normalisation is for {num_channels} channels; samples of shape {shape} need 1 or {shape[0]}"
            )

    def _check_size(self) -> None:
        if self.model.name is None:
            return  # the device allowed that very model
        with torch.device("meta"):  # sizes alone: nothing is allocated, nothing drawn
            model = models.build(self.model, self.input_shape, self.num_classes)
        num_parameters = sum(parameter.numel() for parameter in model.parameters())
        if num_parameters > _MAX_PARAMETERS:
            raise ConfigError(
                f"model {self.model.name!r} would have {num_parameters} parameters for samples of shape "
                f"{self.input_shape} and {self.num_classes} classes; allowed: {_MAX_PARAMETERS}"
            )


def _check_value(what: str, value: Option) -> None:
    numbers = value if isinstance(value, list | tuple) else [value] if isinstance(value, int | float) else []
    if len(numbers) > _MAX_OPTION_VALUES:
        raise ValueError(f"{what} has {len(numbers)} values; allowed: at most {_MAX_OPTION_VALUES}")
    # As float32, which parameters are.
    if not all(abs(number) <= torch.finfo(torch.float32).max for number in numbers):
        raise ValueError(f"{what} is {_shown(value)}; allowed: finite numbers")


def _shown(value: object) -> str:
    """Abbreviate a foreign value to a few words on one line."""
    short = reprlib.Repr()
    short.maxstring, short.maxlist, short.maxtuple = 80, _MAX_OPTION_VALUES, _MAX_DIMENSIONS
    return short.repr(value)
