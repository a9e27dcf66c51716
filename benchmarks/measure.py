"""Measures systems side by side: each in fresh processes, interleaved within every repeat."""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import processes
from contention import CpuSeconds

SMALL_CALL = "small_call_p50_us"
CALLS = "calls_per_second"
PUSH = "push_mb_per_second"
PULL = "pull_mb_per_second"
PEAKS = ("push_client_peak_mb", "push_server_peak_mb", "pull_client_peak_mb", "pull_server_peak_mb")
"""Most resident memory over what there was before the first of three transfers. MB are 10^6 bytes throughout."""
METRICS = (SMALL_CALL, CALLS, PUSH, PULL, *PEAKS)

_PROBE_SECONDS = 180.0
_RAISED = re.compile(r"^[\w.]*(?:Error|Exception)\b.*", re.MULTILINE)  # the last line of a traceback


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


@dataclass
class Measurements:
    """What was measured, by system and metric, one value per repeat; and who could not be, and why."""

    settings: Settings
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


class ProbeFailed(Exception):
    """A probe process ended without figures; the message has the errors it and its server printed."""


def measure(
    systems: Mapping[str, str], settings: Settings, on_progress: Callable[[str], None] = lambda _: None
) -> Measurements:
    """Measure the systems (name -> "module:Class"). One that fails is left out from then on, and reported."""
    measurements = Measurements(settings)
    start = CpuSeconds.now()
    for repeat in range(settings.num_repeats):
        kinds = ["speed"]
        if repeat < settings.num_memory_repeats:
            kinds += ["memory-push", "memory-pull"]
        for name, spec in systems.items():
            if name in measurements.failures:
                continue
            on_progress(f"repeat {repeat + 1} of {settings.num_repeats}: {name}")
            try:
                for kind in kinds:
                    measurements.add(name, run_probe(spec, kind, settings))
            except ProbeFailed as error:
                measurements.failures[name] = str(error)
                measurements.repeats.pop(name, None)  # half a row would be read as a whole one
    measurements.cpu_share_of_others = CpuSeconds.now().share_of_others_since(start)
    return measurements


def run_probe(spec: str, kind: str, settings: Settings) -> dict[str, float]:
    """Run probe.py in a process of its own, which starts and ends the system's server."""
    arguments = (spec, kind, json.dumps(dataclasses.asdict(settings)))
    with tempfile.TemporaryFile() as errors:
        with processes.child("probe", *arguments, stdout=subprocess.PIPE, stderr=errors) as process:
            assert process.stdout is not None
            timer = threading.Timer(_PROBE_SECONDS, process.kill)
            timer.start()
            try:
                output = process.stdout.read()
                code = process.wait()
            finally:
                timer.cancel()
        errors.seek(0)
        log = errors.read().decode(errors="replace")
    if code != 0:
        # The server's error, if it had one, comes before the client's.
        raised = dict.fromkeys(_RAISED.findall(log))
        raise ProbeFailed(f"{kind}: {'; then '.join(raised) or f'exit code {code}'}")
    figures: dict[str, float] = json.loads(output)
    return figures
