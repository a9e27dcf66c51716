"""What rpc.py and http_candidates.py share: measure RPC systems as the command line says, and show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import commandline
from measure import CALLS, PULL, PUSH, QUICK, SMALL_CALL, Settings, measure
from repeats import Measurements
from report import MISSING, Page, whole
from targets import Target


def run(
    description: str | None,
    systems: Mapping[str, str],
    *,
    name: str,
    packages: Sequence[str],
    targets: Sequence[Target] = (),
) -> None:
    """Run one of them as a command; see `commandline.run`."""
    command = commandline.Command(name, description, systems, packages)
    command.run(
        (Settings(), QUICK),
        lambda chosen, settings, progress: measure({one: systems[one] for one in chosen}, settings, progress),
        page_of,
        lambda settings: targets,
    )


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
