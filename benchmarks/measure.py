"""Measures RPC systems side by side, each in fresh processes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

from commands import told_by
from repeats import Case, MeasurementFailed, Measurements, Progress, interleave

SMALL_CALL = "small_call_p50_us"
CALLS = "calls_per_second"
PUSH = "push_mb_per_second"
PULL = "pull_mb_per_second"
PEAKS = ("push_client_peak_mb", "push_server_peak_mb", "pull_client_peak_mb", "pull_server_peak_mb")
"""Most resident memory over what there was before the first of three transfers. MB are 10^6 bytes throughout."""
METRICS = (SMALL_CALL, CALLS, PUSH, PULL, *PEAKS)

_PROBE_SECONDS = 180.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is measured."""

    num_payload_bytes: int = 100_000_000
    num_small_calls: int = 2000
    num_in_flight: int = 64
    throughput_seconds: float = 2.0
    warmup_seconds: float = 0.5
    transfer_seconds: float = 0.6
    """Pushes (and pulls) are repeated for this long after the first."""
    num_repeats: int = 5
    num_memory_repeats: int = 1
    """Of the repeats, those that measure memory too: it hardly varies and takes two process pairs."""


QUICK = Settings(
    num_payload_bytes=10_000_000,
    num_small_calls=100,
    throughput_seconds=0.3,
    warmup_seconds=0.1,
    transfer_seconds=0.1,
    num_repeats=1,
    num_memory_repeats=1,
)
"""A size for tests: shows that all of it runs, says little about speed."""


def measure(systems: Mapping[str, str], settings: Settings, on_progress: Progress) -> Measurements:
    """Measure the systems (name -> "module:Class")."""

    def case_of(spec: str) -> Case:
        def case(repeat: int) -> dict[str, float]:
            kinds = ["speed"]
            if repeat < settings.num_memory_repeats:
                kinds += ["memory-push", "memory-pull"]
            figures: dict[str, float] = {}
            for kind in kinds:
                figures.update(run_probe(spec, kind, settings))
            return figures

        return case

    return interleave({name: case_of(spec) for name, spec in systems.items()}, settings, on_progress)


def run_probe(spec: str, kind: str, settings: Settings) -> dict[str, float]:
    """Run probe.py in a process of its own, which starts and ends the system's server."""
    try:
        return told_by("probe", spec, kind, json.dumps(dataclasses.asdict(settings)), limit_seconds=_PROBE_SECONDS)
    except MeasurementFailed as error:
        raise MeasurementFailed(f"{kind}: {error}") from None
