"""Models as ONNX files, for devices and languages without PyTorch."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

from paceline.errors import ConfigError, PacelineError, in_one_line
from paceline.extras import extra
from paceline.learning.local_model import as_batch
from paceline.learning.preprocessing import logits_of
from paceline.learning.saved_models import SavedModel
from paceline.learning.tasks.base import columns_of
from paceline.learning.training_spec import TrainingSpec

OUTPUT = "outputs"
"""Name of what an exported model computes."""


def write(path: Path, saved: SavedModel, model: nn.Module) -> list[str]:
    """Write a model that takes samples as the data has them, any number at once; returns the names of its inputs.

    Raises `ConfigError` for a model of several sources or a missing package, `PacelineError` for what torch cannot
    export.
    """
    with extra("onnx"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    if saved.cut:
        raise ConfigError("a model of several sources takes a view from each of them, and is not exported")
    inputs = _inputs_of(saved.training)
    names = list(inputs) if saved.training.structure == "dict" and len(inputs) > 1 else None
    batch = torch.export.Dim("samples")
    with _quietly():
        try:
            program = torch.onnx.export(
                _Positional(model.eval(), names),
                tuple(inputs.values()),
                dynamo=True,
                dynamic_shapes=(tuple({0: batch} for _ in inputs),),
                input_names=list(inputs),
                output_names=[OUTPUT],
                verbose=False,
            )
            assert program is not None
            program.save(path)
        except Exception as error:  # whatever torch raises for what it cannot trace
            raise PacelineError(f"this model cannot be exported: {in_one_line(error)}") from error
    return list(inputs)


class _Positional(nn.Module):
    """A model whose inputs are positional, and whose output is one tensor."""

    def __init__(self, model: nn.Module, names: Sequence[str] | None) -> None:
        super().__init__()
        self.model = model
        self._names = names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        if self._names is None:
            return logits_of(self.model(*inputs))
        return logits_of(self.model(**dict(zip(self._names, inputs, strict=True))))


def _inputs_of(spec: TrainingSpec) -> dict[str, torch.Tensor]:
    """Make an example of each input of the model: all columns but the target."""
    columns = dict(
        zip((column.name for column in spec.columns), columns_of(as_batch(spec.zeros(2), spec)), strict=True)
    )
    target = spec.task.target or spec.columns[-1].name
    return {name: column for name, column in columns.items() if name != target or len(columns) == 1}


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep torch from printing how it exports."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
