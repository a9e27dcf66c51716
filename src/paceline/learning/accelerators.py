"""Accelerators: what a device computes on, in which precision, and when that is really done.

What travels and what is saved is always on the CPU, and in the types of the model; only training takes place elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import torch

from paceline.errors import ConfigError, in_one_line

Precision: TypeAlias = Literal["float32", "bfloat16", "float16"]
"""Type in which products of training are computed. Parameters, their updates and evaluation are in float32."""

AUTO = "auto"
"""Stands for the first accelerator that is there, or else the CPU."""

_KINDS = ("cuda", "xpu", "mps")  # of torch itself, in the order in which `AUTO` prefers them
_LOSS_SCALE = 4096.0  # float16 ends at 65,504: leaves room for gradients of 16, so that first steps are not lost

_CPU = torch.device("cpu")

_T = TypeVar("_T")
_Module = TypeVar("_Module", bound=torch.nn.Module)


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """What a model lives on. The CPU is one of them, for which moving and waiting do nothing.

    Attributes:
        device: PyTorch's name of it.
        compiles: whether models are compiled by torch.compile.
    """

    device: torch.device = _CPU
    compiles: bool = False

    @property
    def name(self) -> str:
        """Name, such as ``cuda:0``."""
        return str(self.device)

    @property
    def is_cpu(self) -> bool:
        """Whether work is done by the time that a call returns, and threads do it."""
        return self.device.type == "cpu"

    def synchronise(self) -> None:
        """Wait until all work that was queued is done; only then may a clock be read."""
        if self.device.type in _KINDS:
            torch.accelerator.synchronize(self.device)
        elif not self.is_cpu:
            torch.get_device_module(self.device).synchronize()

    def place(self, module: _Module) -> _Module:
        """Move a module here, before it gets an optimizer, and compile it if that is wanted."""
        module.to(self.device)
        if self.compiles:
            # `Module.compile` leaves an nn.Sequential as it is.
            module.forward = torch.compile(module.forward)
        return module

    def move(self, batch: _T) -> _T:
        """Move a batch here: a tensor, or tuples, lists and dicts of them."""
        moved: _T = batch if self.is_cpu else _moved(batch, self.device)
        return moved

    def autocast(self, precision: Precision) -> AbstractContextManager[object]:
        """Compute products in this precision within the block."""
        if precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, getattr(torch, precision))

    def check(self, precision: Precision) -> None:
        """Raise `ConfigError` if this precision is not to be had here."""
        if precision == "float32":
            return
        wanted, one = getattr(torch, precision), torch.ones(1, 1, device=self.device)
        try:
            with self.autocast(precision):
                found = torch.mm(one, one).dtype  # torch only warns of a type that it ignores
        except Exception as error:  # whatever a backend raises
            raise ConfigError(f"{self.name} does not train in {precision}: {in_one_line(error)}") from error
        if found != wanted:
            raise ConfigError(f"{self.name} does not train in {precision}: products come out as {found}")


CPU = Accelerator()


def find_accelerator(name: str = AUTO, *, compiles: bool = False) -> Accelerator:
    """Return an accelerator of this machine, and keep it from rounding products of float32 to fewer digits.

    Raises `ConfigError` for one that is not there, and where torch.compile does not work.

    Args:
        name: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``, ``xpu``, or that of a backend that registered itself
            with PyTorch.
    """
    there = _names()
    if name == AUTO:
        name = there[0]
    if name not in there:
        known = ", ".join(["cpu", *(one for one in there if ":" in one)])
        raise ConfigError(f"device {name[:80]} is not available on this machine; there are: {known}")
    accelerator = Accelerator(device=torch.device(name), compiles=compiles)
    if not accelerator.is_cpu:
        _use_all_digits()
    if compiles:
        _check_compiler(accelerator)
    return accelerator


def on_cpu(batch: _T) -> _T:
    """Return a batch on the CPU, from wherever it is."""
    moved: _T = _moved(batch, _CPU)
    return moved


class TrainingSteps:
    """Backward passes and optimizer steps of one training, in a precision.

    Small gradients vanish in float16, so losses are scaled there. The scale starts afresh, so that a training can be
    repeated; a step whose gradients overflow is left out, and the scale halved.
    """

    def __init__(self, accelerator: Accelerator, precision: Precision, optimizer: torch.optim.Optimizer) -> None:
        self._accelerator = accelerator
        self._precision = precision
        self._optimizer = optimizer
        self._scaler = None
        if precision == "float16":
            self._scaler = torch.amp.GradScaler(accelerator.device.type, init_scale=_LOSS_SCALE)

    def autocast(self) -> AbstractContextManager[object]:
        """Compute the loss within the block."""
        return self._accelerator.autocast(self._precision)

    def backward(self, output: torch.Tensor, gradient: torch.Tensor | None = None) -> None:
        """Compute the gradients of a loss, or of an output whose gradient is known, anew."""
        self._optimizer.zero_grad()
        if self._scaler is None:
            output.backward(gradient)  # type: ignore[no-untyped-call]
        else:
            self._scaler.scale(output).backward(gradient)  # type: ignore[no-untyped-call]
            self._scaler.unscale_(self._optimizer)

    def step(self) -> None:
        """Change the parameters by their gradients."""
        if self._scaler is None:
            self._optimizer.step()
        else:
            self._scaler.step(self._optimizer)
            self._scaler.update()


def _names() -> list[str]:
    """List what this machine has, the CPU last; of several of a kind, each also by its number."""
    current = torch.accelerator.current_accelerator()
    kinds = dict.fromkeys((*_KINDS, *(() if current is None else (current.type,))))
    names = []
    for kind in kinds:
        module: Any = torch.get_device_module(kind)
        if module.is_available():
            names += [kind, *(f"{kind}:{number}" for number in range(module.device_count()))]
    return [*names, "cpu"]


def _moved(value: Any, device: torch.device) -> Any:
    match value:
        case torch.Tensor():
            return value.to(device)
        case Mapping():
            return {name: _moved(part, device) for name, part in value.items()}
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(_moved(part, device) for part in value))
        case tuple() | list():
            return type(value)(_moved(part, device) for part in value)
    return value


def _use_all_digits() -> None:
    """Turn TF32 off, which PyTorch uses for convolutions by default: what it rounds off, audits take for cheating."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def _check_compiler(accelerator: Accelerator) -> None:
    """Raise `ConfigError` if torch.compile does not work, which often only wants a C++ compiler."""
    try:
        torch.compile(torch.neg)(torch.ones(1, device=accelerator.device))
    except Exception as error:  # whatever its parts raise
        raise ConfigError(f"torch.compile does not work on {accelerator.name}: {in_one_line(error)}") from error
