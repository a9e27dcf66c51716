"""What of a model travels: all of it, what is trained, or what patterns of names choose; and a digest of the rest."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.preprocessing import fitted_buffers

_DIGEST_BYTES = 16

Exchange: TypeAlias = Literal["all", "trainable"] | tuple[str, ...]
"""``all`` parameters and buffers; those parameters that are ``trainable``; or patterns of names, such as ``head.*``.

The last pattern that fits a name decides, and one that begins with ``!`` keeps what fits on the device: ``["*",
"!*.bn*"]`` sends all but layers of batch normalisation.
"""


def exchanged_names(model: nn.Module, exchange: Exchange) -> list[str]:
    """Return the names of what travels; raises `ConfigError` if nothing does, or if a pattern fits nothing.

    Preprocessing never travels: it follows from the job, alike on all devices.
    """
    fitted = fitted_buffers(model)
    names = [name for name in model.state_dict() if name not in fitted]
    if exchange == "all":
        chosen = names
    elif exchange == "trainable":
        trained = {
            name for name, parameter in model.named_parameters(remove_duplicate=False) if parameter.requires_grad
        }
        chosen = [name for name in names if name in trained]
    else:
        chosen = _matching(names, exchange)
    if not chosen:
        raise ConfigError(f"exchange is {exchange!r}, which leaves nothing to send; the model has {_shown(names)}")
    return chosen


def digest_of(state: Mapping[str, torch.Tensor]) -> str:
    """Return a digest of parameters, by which two devices see whether they have the same."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name, tensor in sorted(state.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def _matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    chosen: set[str] = set()
    for pattern in patterns:
        bare = pattern.removeprefix("!")
        found = [name for name in names if fnmatch.fnmatchcase(name, bare)]  # alike on all systems
        if not found:
            raise ConfigError(f"exchange has {pattern!r}, which fits nothing; the model has {_shown(names)}")
        chosen = chosen - set(found) if pattern.startswith("!") else chosen | set(found)
    return [name for name in names if name in chosen]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
