"""Training that diverges: how it is noticed, and what to try."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping

import torch

from paceline.errors import DivergedError

MAX_LOSS_GROWTH = 1e4
"""Limit of a loss, as a multiple of the lowest so far, or of 1."""

_ADVICE = "try a lower learning rate (lr), clip the gradients, or check the data"


def diverged(where: str, what: str) -> DivergedError:
    """Make the error: where training diverged (round or epoch, devices), what shows it, and what to try."""
    return DivergedError(f"training diverged in {where}: {what}; {_ADVICE}")


def has_exploded(loss: float, lowest: float | None = None) -> bool:
    """Return whether a loss is NaN or infinite, or far beyond the lowest so far."""
    return not math.isfinite(loss) or (lowest is not None and loss > MAX_LOSS_GROWTH * max(lowest, 1.0))


class LossWatch:
    """Notices a loss that is far worse than those before.

    Args:
        of_untrained: computes the loss of a model that has learned nothing; called once, and only on suspicion.
        losses: those of earlier rounds, in a run that goes on.

    Attributes:
        lowest: lowest so far; None if there is none.
    """

    def __init__(self, of_untrained: Callable[[], float], losses: Iterable[float] = ()) -> None:
        self.lowest: float | None = None
        self._first = math.inf
        self._of_untrained = functools.cache(of_untrained)
        for loss in losses:
            self.add(loss)

    def is_bad(self, loss: float, of_start: Callable[[], float], *, is_exploded_only: bool = False) -> bool:
        """Return whether a loss has exploded, or most of what was learned is lost.

        Small losses may grow many times while nothing is lost, so the scale is what was learned: how much lower the
        lowest is than that of a model that has learned nothing.

        Args:
            of_start: computes the loss of the model that the round started from; called in the first one.
            is_exploded_only: leave out the latter.
        """
        if self.lowest is None:
            return has_exploded(loss, 0.0) and has_exploded(loss, of_start())
        if has_exploded(loss, self.lowest):
            return True
        if is_exploded_only or loss <= max(self._first, self.lowest + abs(self.lowest)):
            return False
        untrained = self._of_untrained()
        return untrained > self.lowest and loss > (self.lowest + untrained) / 2

    def add(self, loss: float) -> None:
        """Take in the loss after another round."""
        if self.lowest is None:
            self._first = loss
        self.lowest = loss if self.lowest is None else min(loss, self.lowest)


def are_finite(state: Mapping[str, torch.Tensor]) -> bool:
    """Return whether no value is NaN or infinite."""
    return all(_is_finite(tensor) for tensor in state.values())


def _is_finite(tensor: torch.Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    # A sum is the fastest look; it may overflow where no value is infinite.
    return math.isfinite(abs(tensor.sum().item())) or bool(torch.isfinite(tensor).all())
