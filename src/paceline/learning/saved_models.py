"""Models in files that stand alone: parameters in a safetensors file, and how to build the model in its header."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.learning.junction import JunctionSpec
from paceline.learning.local_model import LocalModel
from paceline.learning.model_parts import assemble
from paceline.learning.preprocessing import Normalisation
from paceline.learning.training_spec import TrainingSpec

_KEY = "model"


class SavedModel(msgspec.Struct, frozen=True, kw_only=True):
    """How to build a model whose parameters are in a file.

    Attributes:
        cut: layer that it is cut before, if it is split over several sources; else empty.
        junction: what merges the sources' branches there.
        why_not: why the parameters make up no single model; empty if they do.
    """

    training: TrainingSpec
    cut: str = ""
    junction: JunctionSpec | None = None
    why_not: str = ""

    def build(self, state: Mapping[str, torch.Tensor]) -> nn.Module:
        """Build the model with these parameters, ready to be used; raises `ConfigError` if that cannot be."""
        if self.why_not:
            raise ConfigError(self.why_not)
        if self.cut and self.junction is not None:
            return assemble(self.training, self.cut, self.junction, state)
        model = LocalModel(self.training, allowed=None)
        model.load(state)
        return model.module.eval()

    def header(self) -> dict[str, str]:
        """Return what goes into the header of a file."""
        return {_KEY: msgspec.json.encode(self).decode()}


def read(path: Path) -> tuple[SavedModel, State]:
    """Read a file; raises `ConfigError` if it holds no model."""
    state, header = checkpoints.read(path), checkpoints.read_header(path)
    try:
        return msgspec.json.decode(header[_KEY], type=SavedModel), state
    except (KeyError, msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{path}: it does not say what model its parameters are of") from error


def starting_from(model: LocalModel, state: Mapping[str, torch.Tensor], source: str) -> TrainingSpec:
    """Load parameters to start from, and return the spec of the model with them; raises `ConfigError` if they misfit.

    Names may be those of the whole model, as runs save them, or those of the network in it. What was fitted to other
    data goes with the parameters that were trained behind it.

    Args:
        source: where they are from, for messages.
    """
    own = model.module.state_dict()
    given = dict(state)
    if not given.keys() & own.keys():
        given = {f"model.{name}": tensor for name, tensor in given.items()}
    wrong = sorted(given.keys() - own.keys()) or sorted(model.layout.names - given.keys())
    if wrong:
        what = "has" if wrong[0] in given else "lacks"
        raise ConfigError(f"{source} does not fit the model of this job: it {what} {wrong[0]}")
    try:
        model.load(given)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    return msgspec.structs.replace(
        model.spec,
        normalisation=_fitted(given, "preprocessing.scale", "preprocessing.shift") or model.spec.normalisation,
        target_normalisation=_rescaled(given) or model.spec.target_normalisation,
    )


def _fitted(state: Mapping[str, torch.Tensor], scale: str, shift: str) -> Normalisation | None:
    if scale not in state:
        return None
    factor, moved = state[scale].double().flatten(), state[shift].double().flatten()
    return Normalisation(1.0, tuple((moved / factor).tolist()), tuple((1 / factor).tolist()))


def _rescaled(state: Mapping[str, torch.Tensor]) -> Normalisation | None:
    if "postprocessing.std" not in state:
        return None
    mean, std = state["postprocessing.mean"].double(), state["postprocessing.std"].double()
    return Normalisation(1.0, tuple(mean.flatten().tolist()), tuple(std.flatten().tolist()))
