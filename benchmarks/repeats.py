"""Measures cases side by side, interleaved within every repeat, and keeps what each repeat gave."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contention import CpuSeconds

Progress = Callable[[str], None]
"""Shows what is being measured."""

Case = Callable[[int], Mapping[str, float]]
"""Measures once and gives figures by metric; called with the number of the repeat, from 0."""


@dataclass
class Measurements:
    """What was measured, by system and metric, one value per repeat; and who could not be, and why."""

    settings: Any
    """A dataclass of the benchmark's own, with `num_repeats` in it."""
    repeats: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    cpu_share_of_others: float = 0.0
    """Of all CPU time while this was measured, what other processes took: the more, the less the figures say."""

    def values(self, system: str, metric: str) -> list[float]:
        """The repeats' values, empty where it was not measured."""
        return self.repeats.get(system, {}).get(metric, [])

    def median(self, system: str, metric: str) -> float | None:
        """The median over the repeats."""
        values = self.values(system, metric)
        return statistics.median(values) if values else None

    def add(self, system: str, figures: Mapping[str, float]) -> None:
        """Take the figures of one repeat."""
        for metric, value in figures.items():
            self.repeats.setdefault(system, {}).setdefault(metric, []).append(value)


class MeasurementFailed(Exception):
    """A case ended without figures; the message says why, with the errors that its processes printed."""


def interleave(cases: Mapping[str, Case], settings: Any, on_progress: Progress = lambda _: None) -> Measurements:
    """Measure all cases in each of `settings.num_repeats`. One that fails is left out from then on, and reported."""
    measurements = Measurements(settings)
    start = CpuSeconds.now()
    for repeat in range(settings.num_repeats):
        for name, case in cases.items():
            if name in measurements.failures:
                continue
            on_progress(f"repeat {repeat + 1} of {settings.num_repeats}: {name}")
            try:
                measurements.add(name, case(repeat))
            except MeasurementFailed as error:
                measurements.failures[name] = str(error)
                measurements.repeats.pop(name, None)  # half a row would be read as a whole one
    measurements.cpu_share_of_others = CpuSeconds.now().share_of_others_since(start)
    return measurements
