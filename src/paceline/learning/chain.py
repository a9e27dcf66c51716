"""Models as chains of named layers, to be cut before one of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from paceline.errors import ConfigError, in_one_line
from paceline.learning.preprocessing import WholeModel
from paceline.spelling import suggest

_TOLERANCE = 1e-4  # between a model and its layers one after the other, which do the same sums


class Chain:
    """A model that is the composition of its children; raises `ConfigError` for any other.

    Preprocessing is the first of its layers, and what puts outputs into units the last.

    Args:
        model: model to take apart; its layers are used as they are.
        example: some samples that it takes.

    Attributes:
        layers: children by name, in order.
        cuts: layers before which the model may be cut: those that it declares as its `cuts`, or all.
        shapes: shape of each layer's input, for one sample.
    """

    def __init__(self, model: nn.Module, example: torch.Tensor) -> None:
        whole, model = model, model.model if isinstance(model, WholeModel) else model
        self.layers = OrderedDict(model.named_children())
        if not self.layers:
            raise ConfigError(f"{type(model).__name__} has no children, so it cannot be cut; make it an nn.Sequential")
        self.cuts: tuple[str, ...] = tuple(getattr(model, "cuts", self.layers))
        for name in self.cuts:
            if name not in self.layers:
                raise ConfigError(
                    f"{type(model).__name__} declares a cut before {name!r}; {suggest(name, self.layers)}"
                )
        if isinstance(whole, WholeModel):
            ends = {"preprocessing": whole.preprocessing, "postprocessing": whole.postprocessing}
            first, last = ([(name, layer)] if layer is not None else [] for name, layer in ends.items())
            self.layers = OrderedDict([*first, *self.layers.items(), *last])
        self.shapes = self._trace(whole, type(model).__name__, example)

    def check_cut(self, cut: str) -> None:
        """Raise `ConfigError` if the model cannot be cut before this layer."""
        if cut not in self.cuts:
            raise ConfigError(f"cut is {cut!r}; {suggest(cut, self.cuts)}")

    def before(self, cut: str) -> nn.Sequential:
        """Return the layers before a cut."""
        return self._part(list(self.layers)[: self._place(cut)])

    def after(self, cut: str) -> nn.Sequential:
        """Return the layers from a cut on."""
        return self._part(list(self.layers)[self._place(cut) :])

    def _place(self, cut: str) -> int:
        self.check_cut(cut)
        return list(self.layers).index(cut)

    def _part(self, names: Sequence[str]) -> nn.Sequential:
        return nn.Sequential(OrderedDict((name, self.layers[name]) for name in names))

    @torch.inference_mode()
    def _trace(self, model: nn.Module, name: str, example: torch.Tensor) -> dict[str, tuple[int, ...]]:
        """Find the shape of each layer's input by a trial, and check that the layers make up the model."""
        was_training = model.training
        model.eval()
        x = example
        try:
            expected, shapes = model(x), {}
            for layer_name, layer in self.layers.items():
                shapes[layer_name] = tuple(x.shape[1:])
                x = layer(x)
        except Exception as error:  # whatever a model of the user's raises
            raise ConfigError(
                f"{name} cannot be cut: a layer does not take the previous one's output: "
                f"{in_one_line(error, is_named=True)}"
            ) from error
        finally:
            model.train(was_training)
        if x.shape != expected.shape or not torch.allclose(x, expected, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise ConfigError(
                f"{name} cannot be cut: its children in sequence give another output than the model; "
                "have its forward call them in order, with nothing between"
            )
        return shapes
