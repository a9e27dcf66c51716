"""When training ends before its last round: a target is reached, or nothing has improved for too long."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from paceline.errors import ConfigError
from paceline.learning.scores import LOSS, Scores, is_ratio
from paceline.spelling import suggest

DEFAULT_WATCH = "min loss"
"""What has to improve if nothing else is said."""

StopReason: TypeAlias = Literal["target reached", "no improvement"]
"""Reason why training ends early."""

_COMPARISONS = {">=": operator.ge, "<=": operator.le}
_DIRECTIONS = {"min": operator.lt, "max": operator.gt}
_TARGET = re.compile(r"\s*(\S+?)\s*(>=|<=)\s*(\S+)\s*")
_WATCH = re.compile(r"\s*(min|max)\s+(\S+)\s*")


class _Target(NamedTuple):
    """A figure to reach, such as ``accuracy >= 0.97``."""

    metric: str
    comparison: str
    value: float

    @classmethod
    def parse(cls, text: str) -> _Target:
        found = _TARGET.fullmatch(text)
        value = _number(found[3]) if found else None
        if found is None or value is None:
            example = 'such as "accuracy >= 0.97" or "loss <= 0.1"'
            raise ValueError(f"target is {text[:80]!r}; it must be a metric, >= or <=, and a number, {example}")
        if is_ratio(found[1]) and not 0 <= value <= 1:
            raise ValueError(f"target is {text[:80]!r}; {found[1]} is a ratio, from 0 to 1")
        return cls(found[1], found[2], value)

    def is_reached_by(self, figure: float | None) -> bool:
        return figure is not None and bool(_COMPARISONS[self.comparison](figure, self.value))


class _Watch(NamedTuple):
    """A figure that has to improve, such as ``min loss``."""

    direction: str
    metric: str

    @classmethod
    def parse(cls, text: str) -> _Watch:
        found = _WATCH.fullmatch(text)
        if found is None:
            example = 'such as "min loss" or "max accuracy"'
            raise ValueError(f"watch is {text[:80]!r}; it must be min or max, and a metric, {example}")
        return cls(found[1], found[2])

    def is_better(self, figure: float, best: float) -> bool:
        return bool(_DIRECTIONS[self.direction](figure, best))


class EarlyStopping:
    """Decides whether training ends, by one score after another; raises `ValueError` for rules that cannot be.

    Args:
        target: what ends it once reached: a metric or ``loss``, ``>=`` or ``<=``, and a number; None for nothing.
        patience: number of scores in a row without improvement that end it; None for any number.
        watch: what has to improve: ``min`` or ``max``, and a metric or ``loss``.
        history: scores of earlier rounds, in a run that goes on.

    Attributes:
        reason: why training ends, by the scores so far; None if it goes on.
        history: scores that decide so, as short as can be: what comes of them is what comes of all.
    """

    def __init__(
        self, target: str | None, patience: int | None, watch: str = DEFAULT_WATCH, history: Iterable[Scores] = ()
    ) -> None:
        self._target = None if target is None else _Target.parse(target)
        self._watch = _Watch.parse(watch)
        self._patience = patience
        if patience is None and watch != DEFAULT_WATCH:
            raise ValueError(f"watch is {watch!r}, but there is no patience; say how long to wait for an improvement")
        self._best: float | None = None
        self._num_since_best = 0
        self.reason: StopReason | None = None
        self.history: list[Scores] = []
        for scores in history:
            self.add(scores)

    @property
    def is_best(self) -> bool:
        """Whether the last scores are better than all before."""
        return self._best is not None and self._num_since_best == 0

    def check(self, metric_names: Iterable[str]) -> None:
        """Raise `ConfigError` for a metric that the task does not have."""
        known = (LOSS, *metric_names)
        for key, rule in (("target", self._target), ("watch", self._watch)):
            if rule is not None and rule.metric not in known:
                raise ConfigError(f"{key}: the task has no metric {rule.metric!r}; {suggest(rule.metric, known)}")

    def add(self, scores: Scores) -> None:
        """Take in the scores of another round."""
        figure = scores.figure(self._watch.metric)
        if figure is not None and (self._best is None or self._watch.is_better(figure, self._best)):
            self._best, self._num_since_best = figure, 0
            self.history.clear()
        else:
            self._num_since_best += 1
        self.history.append(scores)
        del self.history[1 : -(self._patience or 1)]
        self.reason = None
        if self._target is not None and self._target.is_reached_by(scores.figure(self._target.metric)):
            self.reason = "target reached"
        elif self._patience is not None and self._num_since_best >= self._patience:
            self.reason = "no improvement"


def _number(text: str) -> float | None:
    """Read a finite number; None if it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
