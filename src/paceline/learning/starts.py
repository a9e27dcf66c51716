"""Models to start a job from: new ones, or with parameters that were learned before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.learning.datasets import Dataset
from paceline.learning.exchange import digest_of
from paceline.learning.local_model import LocalModel
from paceline.learning.preprocessing import Normalisation, Rescale, Standardise
from paceline.learning.training_spec import TrainingSpec

_INNER = "model."  # what the names of a network begin with in a whole model


def make_model(
    job: Any,
    dataset: Dataset,
    start: State | None = None,
    check: Callable[[TrainingSpec], None] = lambda spec: None,
    **settings: Any,
) -> LocalModel:
    """Make the model of a job on a dataset, with what it starts from; raises `ConfigError` if that does not fit.

    Args:
        start: parameters to start from; None for what the job says.
        check: called before anything is built.
        settings: further fields of `TrainingSpec`.
    """
    spec, source = TrainingSpec.of(job, dataset, **settings), "the checkpoint"
    check(spec)
    if start is None and job.model.start is not None:
        source = job.model.start
        start = checkpoints.read(checkpoints.newest_in(Path(source)), is_foreign=True)
    if start is None:
        return _with_digest(LocalModel(spec, allowed=None))
    try:
        return _with_digest(_started(spec, start))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def _with_digest(model: LocalModel) -> LocalModel:
    """Put the digest of what does not travel into the spec, so that devices see whether they have the same."""
    base = model.base()
    if base:
        model.spec = msgspec.structs.replace(model.spec, base=digest_of(base))
    return model


def _started(spec: TrainingSpec, state: State) -> LocalModel:
    """Make a model with these parameters.

    Names may be those of the whole model, as runs save them, or those of the network in it. Preprocessing that was
    fitted to other data goes with the parameters that were trained behind it.
    """
    model = LocalModel(spec, allowed=None)
    own = model.module.state_dict()
    if not state.keys() & own.keys():
        state = {_INNER + name: tensor for name, tensor in state.items()}
    extra, missing = sorted(state.keys() - own.keys()), sorted(model.layout.names - state.keys())
    if extra or missing:
        what = f"has {extra[0]}" if extra else f"lacks {missing[0]}"
        raise ConfigError(f"it does not fit the model of this job: it {what}")
    model = LocalModel(_refitted(spec, model.module, state), allowed=None)
    model.load(state)
    return model


def _refitted(spec: TrainingSpec, module: nn.Module, state: State) -> TrainingSpec:
    """Return the spec with the preprocessing that is among the parameters: devices make theirs from the spec."""
    fitted = {}
    for name, layer in module.named_modules():
        place = f"{name}." if name else ""
        if isinstance(layer, Standardise) and spec.normalisation is not None and f"{place}scale" in state:
            scale, shift = _values(state, f"{place}scale"), _values(state, f"{place}shift")
            fitted["normalisation"] = _normalisation(shift / scale, 1 / scale)
        if isinstance(layer, Rescale) and f"{place}std" in state:
            fitted["target_normalisation"] = _normalisation(
                _values(state, f"{place}mean"), _values(state, f"{place}std")
            )
    return msgspec.structs.replace(spec, **fitted)


def _values(state: State, name: str) -> torch.Tensor:
    if name not in state:
        raise ConfigError(f"it lacks {name}")
    return state[name].double().flatten()


def _normalisation(mean: torch.Tensor, std: torch.Tensor) -> Normalisation:
    try:
        return Normalisation(1.0, tuple(mean.tolist()), tuple(std.tolist()))
    except ValueError as error:
        raise ConfigError(f"its preprocessing is of no use: {error}") from error
