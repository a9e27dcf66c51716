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
from paceline.learning.training_spec import TrainingSpec
from paceline.learning.vectors import load_into

_KEY = "model"


class SavedModel(msgspec.Struct, frozen=True, kw_only=True):
    """How to build a model whose parameters are in a file.

    Attributes:
        training: what was trained; models and tasks by import path are loaded from there.
        cut: layer that it is cut before, if it is split over several sources; else empty.
        junction: what merges the sources' branches there.
        why_not: why the parameters make up no single model; empty if they do.
    """

    training: TrainingSpec
    cut: str = ""
    junction: JunctionSpec | None = None
    why_not: str = ""

    def build(self, state: Mapping[str, torch.Tensor]) -> nn.Module:
        """Build the model with these parameters, in evaluation mode; raises `ConfigError` if that cannot be."""
        if self.why_not:
            raise ConfigError(self.why_not)
        if self.cut and self.junction is not None:
            return assemble(self.training, self.cut, self.junction, state)
        model = LocalModel(self.training, allowed=None)
        load_into(model.module, state)
        return model.module.eval()

    def header(self) -> dict[str, str]:
        """Return what goes into the header of a file."""
        return {_KEY: msgspec.json.encode(self).decode()}


def read(path: Path) -> tuple[SavedModel, State]:
    """Read a file; raises `ConfigError` if it holds no model."""
    state, header = checkpoints.read_whole(path)
    try:
        return msgspec.json.decode(header[_KEY], type=SavedModel), state
    except (KeyError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: it does not say what model its parameters are of") from error
    except ConfigError as error:  # more than a device may be asked to do
        raise ConfigError(f"{path}: {error}") from error
