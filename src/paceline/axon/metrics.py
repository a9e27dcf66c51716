"""Figures in the text format of Prometheus."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BOUNDS_SECONDS = (0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 25.0, 100.0)
"""Upper bounds of the buckets of `Durations`: from a call that finds its answer there to one that polls for long."""

_UNFIT = re.compile(r"\W", re.ASCII)
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Sample(NamedTuple):
    """A value, of a thing that the labels name; `suffix` comes after the name of a histogram."""

    value: float
    labels: Mapping[str, str] = {}
    suffix: str = ""


class Metric(NamedTuple):
    """A figure, by thing. Names of counters end in ``_total``."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[Sample]


class Durations:
    """How often something took how long."""

    __slots__ = ("counts", "sum_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds

    def samples(self, labels: Mapping[str, str]) -> Iterable[Sample]:
        """Return the samples of a histogram."""
        count = 0
        for bound, in_bucket in zip((*BOUNDS_SECONDS, math.inf), self.counts, strict=True):
            count += in_bucket
            yield Sample(count, {**labels, "le": _written(bound)}, "_bucket")
        yield Sample(self.sum_seconds, labels, "_sum")
        yield Sample(count, labels, "_count")


def fitting(name: str) -> str:
    """Write a name with the signs that those of metrics may have."""
    return _UNFIT.sub("_", name)


def render(metrics: Iterable[Metric]) -> bytes:
    """Write metrics as Prometheus reads them; those without samples are left out."""
    return "".join(_lines(one) for one in metrics if one.samples).encode()


def _lines(metric: Metric) -> str:
    name, text = metric.name, metric.help.translate(_ESCAPES).replace(r"\"", '"')
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {metric.kind}"]
    for value, labels, suffix in metric.samples:
        inner = ",".join(f'{label}="{given.translate(_ESCAPES)}"' for label, given in labels.items())
        lines.append(f"{name}{suffix}{f'{{{inner}}}' if inner else ''} {_written(value)}")
    return "\n".join(lines) + "\n"


def _written(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)
