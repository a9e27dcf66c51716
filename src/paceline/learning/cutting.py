"""Models as chains of named layers, to be cut before one of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.spelling import suggest

_TOLERANCE = 1e-4  # between a model and its layers one after the other, which do the same sums
_MAX_REASON = 200  # characters of what torch says


class Chain:
    """A model whose children, one after the other, are all of it; `ConfigError` for a model that is none.

    Args:
        model: is taken apart; its layers are used as they are.
        input_shape: of one sample.

    Attributes:
        layers: the children by name, in order.
        cuts: the layers before which it may be cut: those that the model declares as its `cuts`, or all.
        shapes: of what each layer takes, for one sample.
    """

    def __init__(self, model: nn.Module, input_shape: Sequence[int]) -> None:
        self.layers = OrderedDict(model.named_children())
        if not self.layers:
            raise ConfigError(f"{type(model).__name__} has no children, so it cannot be cut; make it an nn.Sequential")
        self.cuts: tuple[str, ...] = tuple(getattr(model, "cuts", self.layers))
        for name in self.cuts:
            if name not in self.layers:
                raise ConfigError(
                    f"{type(model).__name__} declares a cut before {name!r}; {suggest(name, self.layers)}"
                )
        self.shapes = self._trace(model, input_shape)

    def check_cut(self, cut: str) -> None:
        """Raise `ConfigError` if it cannot be cut before this layer."""
        if cut not in self.cuts:
            raise ConfigError(f"cut is {cut!r}; {suggest(cut, self.cuts)}")

    def before(self, cut: str) -> nn.Sequential:
        """The layers before a cut; none if it is before the first."""
        return self._part(list(self.layers)[: self._place(cut)])

    def after(self, cut: str) -> nn.Sequential:
        """The layer that is named, and all that follow."""
        return self._part(list(self.layers)[self._place(cut) :])

    def _place(self, cut: str) -> int:
        self.check_cut(cut)
        return list(self.layers).index(cut)

    def _part(self, names: Sequence[str]) -> nn.Sequential:
        return nn.Sequential(OrderedDict((name, self.layers[name]) for name in names))

    @torch.inference_mode()
    def _trace(self, model: nn.Module, input_shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """What each layer takes, found by a trial, which also shows whether the layers make up the model."""
        name, was_training = type(model).__name__, model.training
        model.eval()
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(2, *input_shape, generator=generator)
        try:
            expected, shapes = model(x), {}
            for layer_name, layer in self.layers.items():
                shapes[layer_name] = tuple(x.shape[1:])
                x = layer(x)
        except Exception as error:  # whatever a model of the user's raises
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_REASON]
            raise ConfigError(
                f"{name} cannot be cut: one of its layers does not take what comes before: {reason}"
            ) from error
        finally:
            model.train(was_training)
        if x.shape != expected.shape or not torch.allclose(x, expected, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise ConfigError(
                f"{name} cannot be cut: its children one after the other give something else than the model; "
                "have its forward call them in order, with nothing between"
            )
        return shapes
