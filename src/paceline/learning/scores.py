"""What a model achieves on data: its loss, and metrics by name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

LOSS = "loss"
"""Name of the loss among figures; no metric may have it."""


class Scores(NamedTuple):
    """What a model achieves on data.

    Attributes:
        loss: mean over the samples.
        metrics: other figures, by name.
    """

    loss: float
    metrics: dict[str, float]

    def figure(self, name: str) -> float | None:
        """Return the loss, or the metric of this name; None if there is none, or it is NaN or infinite."""
        figure = self.loss if name == LOSS else self.metrics.get(name, math.nan)
        return figure if math.isfinite(figure) else None


def fields_of(scores: Scores | None) -> dict[str, Any]:
    """Return the fields of an event with these scores; none if nothing was measured."""
    if scores is None:
        return {}
    return {"loss": scores.loss, "metrics": {name: scores.figure(name) for name in scores.metrics}}


def figures_of(scores: Scores | None, metric_names: Iterable[str]) -> dict[str, float | None]:
    """Return the loss and these metrics by name, side by side; None for what was not measured."""
    return {name: None if scores is None else scores.figure(name) for name in (LOSS, *metric_names)}


def is_ratio(metric: str) -> bool:
    """Return whether a metric is written in per cent, by its name: ``accuracy``, ``macro_f1``, ``hit_rate``."""
    return metric.endswith(("accuracy", "f1", "_rate"))
