"""``paceline demo``: four unequal devices on this machine learn to read digits, each by the deadline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline import runs
from paceline.allocation import DabAllocation
from paceline.cli import results
from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.topologies.parallel import Job

DEVICES = (
    LocalDevice(name="laptop", slowdown=4),
    LocalDevice(name="old-pc", slowdown=8, down_mbit=100, up_mbit=40, latency_ms=2),
    LocalDevice(name="jetson", slowdown=16, down_mbit=100, up_mbit=40, latency_ms=2),
    LocalDevice(name="pi", slowdown=32, down_mbit=40, up_mbit=20, latency_ms=5),
)


def demo(
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds to play.")] = 12,
    folder: Annotated[Path | None, typer.Option(help="A new folder for the run; by default in runs/.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="End with the result as one JSON object.")] = False,
) -> None:
    """Train on four unequal devices on this machine: each takes as much as it can finish by the deadline.

    Example: paceline demo
    """
    job = Job(
        rounds=rounds,
        deadline_seconds=3.0,
        local_epochs=2,
        batch_size=16,
        min_learners=len(DEVICES),
        benchmark_shards=4,
        model=ModelSpec(name="deadline-net"),
        data=DataSpec(name="digits", shard_size=16),
        allocation=DabAllocation(),
    )
    console = Console(stderr=as_json)
    console.print(f"Starting {len(DEVICES)} devices on this machine; each measures itself first …", highlight=False)
    with results.watching(console) as watch:
        run = runs.train(job, LocalFleet(DEVICES), folder=folder, watchers=[watch])
    results.show(run, console, as_json=as_json)
