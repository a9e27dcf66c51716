"""What rpc.py and http_candidates.py share: measure RPC systems as the command line says, and show it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import commandline
from measure import CALLS, PULL, PUSH, QUICK, SMALL_CALL, Settings, measure
from repeats import Measurements
from report import MISSING, Page, versions, whole
from targets import Target


def run(
    description: str,
    systems: Mapping[str, str],
    *,
    output: Path,
    packages: Sequence[str],
    targets: Sequence[Target] = (),
    argv: Sequence[str] | None = None,
) -> int:
    """Measure and publish. Returns the exit code: 1 if a system could not be measured."""
    options = commandline.parse(
        description,
        systems,
        output=output,
        num_repeats=Settings().num_repeats,
        quick="one short repeat with 10 MB",
        argv=argv,
    )
    settings = QUICK if options.quick else Settings()
    if options.repeats:
        settings = dataclasses.replace(settings, num_repeats=options.repeats)
    chosen = {name: systems[name] for name in options.systems}
    measurements = commandline.measure_with_progress(lambda progress: measure(chosen, settings, progress))
    return commandline.publish(page_of, measurements, targets=targets, versions=versions(packages), options=options)


def page_of(measurements: Measurements) -> Page:
    """The table: one row of medians per measured system."""
    payload = f"{measurements.settings.num_payload_bytes / 1e6:g} MB"
    return Page(
        setting="loopback, server in its own process",
        headings=[
            "System",
            "100 B call p50 µs",
            f"calls/s, {measurements.settings.num_in_flight} in flight",
            f"{payload} push MB/s",
            "pull MB/s",
            "push: extra peak MB client / server",
            "pull: extra peak MB client / server",
        ],
        rows=[
            [
                name,
                *(whole(measurements.median(name, metric)) for metric in (SMALL_CALL, CALLS, PUSH, PULL)),
                *(_peaks(measurements, name, direction) for direction in ("push", "pull")),
            ]
            for name in measurements.repeats
        ],
    )


def _peaks(measurements: Measurements, name: str, direction: str) -> str:
    sides = [measurements.median(name, f"{direction}_{side}_peak_mb") for side in ("client", "server")]
    return MISSING if None in sides else " / ".join(whole(side) for side in sides)
