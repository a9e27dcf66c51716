"""What the demo's workers offer: a model whose parameters can be set and fetched."""

from __future__ import annotations

import torch

from paceline import axon


def make_model() -> torch.nn.Module:
    """A convolutional network for 32 × 32 colour images, of a size that is worth measuring."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(64, 128, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(128 * 8 * 8, 1024),
        torch.nn.ReLU(),
        torch.nn.Linear(1024, 10),
    )


_model = make_model()


@axon.worker.rpc(executor="loop")
def ping() -> None:
    """Do nothing, to time a call."""


@axon.worker.rpc()
def load(state: dict[str, torch.Tensor]) -> int:
    """Set the model's parameters; tells how many there are."""
    _model.load_state_dict(state)
    return sum(tensor.numel() for tensor in state.values())


@axon.worker.rpc()
def parameters() -> dict[str, torch.Tensor]:
    """The model's parameters."""
    return _model.state_dict()
