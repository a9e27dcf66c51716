"""``paceline demo``: four unequal devices on this machine learn to read digits, each by the deadline."""

from __future__ import annotations

from typing import Annotated

from paceline import DabAllocation, DataSpec, Job, LocalDevice, LocalFleet, ModelSpec
from paceline.cli import show_run
from paceline.cli.options import Folder, ResultAsJson, option

DEVICES = (
    LocalDevice(name="laptop", slowdown=4),
    LocalDevice(name="old-pc", slowdown=8, down_mbit=100, up_mbit=40, latency_ms=2),
    LocalDevice(name="jetson", slowdown=16, down_mbit=100, up_mbit=40, latency_ms=2),
    LocalDevice(name="pi", slowdown=32, down_mbit=40, up_mbit=20, latency_ms=5),
)


def demo(
    rounds: Annotated[int, option("N", "Number of rounds (12).", min=1)] = 12,
    folder: Folder = None,
    as_json: ResultAsJson = False,
) -> None:
    """Train on four unequal devices, emulated on this machine.

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
    opening = f"Starting {len(DEVICES)} devices on this machine; each measures itself first …"
    show_run.run_and_show(job, LocalFleet(DEVICES), folder, as_json=as_json, opening=opening)
