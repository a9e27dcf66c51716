"""Models to start a job from: new ones, or with parameters that were learned before."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch

from paceline.errors import ConfigError
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.learning.datasets import Dataset
from paceline.learning.local_model import LocalModel
from paceline.learning.preprocessing import Normalisation
from paceline.learning.training_spec import TrainingSpec

_DIGEST_BYTES = 16
_INNER = "model."  # what the names of a network begin with in a whole model


def make_model(job: Any, dataset: Dataset, start: State | None = None, **settings: Any) -> LocalModel:
    """Make the model of a job on a dataset, with what it starts from; raises `ConfigError` if that does not fit.

    Args:
        start: parameters to start from; None for what the job says.
        settings: further fields of `TrainingSpec`.
    """
    model, source = LocalModel(TrainingSpec.of(job, dataset, **settings), allowed=None), job.model.start
    if start is not None:
        return _started(model, start, "the checkpoint")
    return model if source is None else _started(model, checkpoints.read(checkpoints.newest_in(Path(source))), source)


def digest_of(state: Mapping[str, torch.Tensor]) -> str:
    """Return a digest of parameters, by which two devices see whether they have the same."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name, tensor in sorted(state.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def _started(model: LocalModel, state: State, source: str) -> LocalModel:
    """Return the model with these parameters.

    Names may be those of the whole model, as runs save them, or those of the network in it. What was fitted to other
    data goes with the parameters that were trained behind it.
    """
    own = model.module.state_dict()
    if not state.keys() & own.keys():
        state = {_INNER + name: tensor for name, tensor in state.items()}
    extra, missing = sorted(state.keys() - own.keys()), sorted(model.layout.names - state.keys())
    if extra or missing:
        what = f"has {extra[0]}" if extra else f"lacks {missing[0]}"
        raise ConfigError(f"{source} does not fit the model of this job: it {what}")
    spec = msgspec.structs.replace(
        model.spec,
        normalisation=_normalisation(state) or model.spec.normalisation,
        target_normalisation=_target_normalisation(state) or model.spec.target_normalisation,
    )
    started = LocalModel(spec, allowed=None)
    try:
        started.load(state)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    base = started.base()
    started.spec = msgspec.structs.replace(spec, base=digest_of(base) if base else "")
    return started


def _normalisation(state: State) -> Normalisation | None:
    if "preprocessing.scale" not in state:
        return None
    scale, shift = (state[f"preprocessing.{name}"].double().flatten() for name in ("scale", "shift"))
    return Normalisation(1.0, tuple((shift / scale).tolist()), tuple((1 / scale).tolist()))


def _target_normalisation(state: State) -> Normalisation | None:
    if "postprocessing.std" not in state:
        return None
    mean, std = (state[f"postprocessing.{name}"].double().flatten() for name in ("mean", "std"))
    return Normalisation(1.0, tuple(mean.tolist()), tuple(std.tolist()))
