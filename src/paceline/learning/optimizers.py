"""Optimizers of torch.optim by name, as jobs choose them, and how their learning rate changes from round to round."""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec
import torch

from paceline.checks import MOST, Spec, check_fields
from paceline.errors import in_one_line
from paceline.spelling import suggest

_MAX_OPTION_VALUES = 8  # far beyond any option

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


class OptimizerSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Optimizer of torch.optim, made anew for each round; `ValueError` if it cannot be made or used.

    Attributes:
        name: name in torch.optim, such as ``SGD`` or ``Adam``.
        options: keyword arguments, such as ``lr``.
        schedule: how learning rates change over the rounds, or epochs, of a job: not at all, or down to 0 on a half
            ``cosine`` or in a line (``linear``).
    """

    name: str = "SGD"
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    options: dict[str, Option] = msgspec.field(default_factory=lambda: dict(_DEFAULT_OPTIONS))

    def __post_init__(self) -> None:
        check_fields(self)
        if self.name not in OPTIMIZERS:
            raise ValueError(f"optimizer {_shown(self.name)} is unknown; {suggest(self.name, OPTIMIZERS)}")
        known = [*inspect.signature(OPTIMIZERS[self.name]).parameters][1:]
        for option, value in self.options.items():
            if option not in known:
                allowed = (*known, "schedule")  # in files it stands beside them
                raise ValueError(f"{self.name} has no option {_shown(option)}; {suggest(option, allowed)}")
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

    def factor(self, round: int, rounds: int) -> float:
        """Return what learning rates are multiplied by in a round of so many, counted from 1."""
        done = min(1.0, (round - 1) / rounds)
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * done))
        return 1 - done if self.schedule == "linear" else 1.0

    def try_out(self) -> None:
        """Take a tiny step: it reveals wrong values, and makes torch load what steps need."""
        parameter = torch.nn.Parameter(torch.zeros(1))
        parameter.grad = torch.zeros(1)
        self.make([parameter]).step()


def set_learning_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set learning rates to those that the optimizer was made with, multiplied by a factor."""
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor


def _check_value(what: str, value: Option) -> None:
    numbers = value if isinstance(value, list | tuple) else [value] if isinstance(value, int | float) else []
    if len(numbers) > _MAX_OPTION_VALUES:
        raise ValueError(f"{what} has {len(numbers)} values; allowed: at most {_MAX_OPTION_VALUES}")
    if not all(abs(number) <= MOST for number in numbers):
        raise ValueError(f"{what} is {_shown(value)}; allowed: finite numbers, up to {MOST:g}")


def _shown(value: object) -> str:
    """Abbreviate a foreign value to a few words on one line."""
    short = reprlib.Repr()
    short.maxstring, short.maxlist = 80, _MAX_OPTION_VALUES
    return short.repr(value)
