"""What Paceline promises relative to its peers, and whether a measurement keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from repeats import Measurements


@dataclass(frozen=True)
class Target:
    """A system's metric over the best of its references' must be at most, or at least, a limit.

    Without references the metrics are peaks, and the largest is taken over the payload's size.
    """

    text: str
    system: str
    metrics: tuple[str, ...]
    references: tuple[str, ...]
    limit_ratio: float
    is_at_most: bool = False


@dataclass(frozen=True)
class Verdict:
    """A target and what was measured. `measured_ratio` is None where a system it needs was not measured."""

    text: str
    limit_ratio: float
    is_at_most: bool
    measured_ratio: float | None
    repeat_ratios: list[float]
    """The same ratio within each repeat: how far noise moves it."""

    @property
    def is_met(self) -> bool | None:
        """None if it was not measured."""
        if self.measured_ratio is None:
            return None
        if self.is_at_most:
            return self.measured_ratio <= self.limit_ratio
        return self.measured_ratio >= self.limit_ratio

    @property
    def limit_text(self) -> str:
        """For tables."""
        return f"{'≤' if self.is_at_most else '≥'} {self.limit_ratio:g}×"

    @property
    def met_text(self) -> str:
        """For tables."""
        return {None: "not measured", True: "yes", False: "no"}[self.is_met]

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "text": self.text,
            "limit": self.limit_text,
            "limit_ratio": self.limit_ratio,
            "measured_ratio": self.measured_ratio,
            "repeat_ratios": self.repeat_ratios,
            "met": self.is_met,
        }


def judge(target: Target, measurements: Measurements) -> Verdict:
    """Compare the medians."""
    ratio = _ratio(target, measurements, None)
    num_repeats = max((len(measurements.values(target.system, metric)) for metric in target.metrics), default=0)
    per_repeat = [_ratio(target, measurements, repeat) for repeat in range(num_repeats)]
    return Verdict(target.text, target.limit_ratio, target.is_at_most, ratio, [r for r in per_repeat if r is not None])


def _ratio(target: Target, measurements: Measurements, repeat: int | None) -> float | None:
    def figure(system: str, metric: str) -> float | None:
        if repeat is None:
            return measurements.median(system, metric)
        values = measurements.values(system, metric)
        return values[repeat] if repeat < len(values) else None

    own = [figure(target.system, metric) for metric in target.metrics]
    references = [figure(system, target.metrics[0]) for system in target.references]
    if None in own or None in references:
        return None
    if not target.references:
        return max(own) / (measurements.settings.num_payload_bytes / 1e6)
    best = min(references) if target.is_at_most else max(references)
    return own[0] / best
