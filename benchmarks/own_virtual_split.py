"""Paceline's side of split.py on virtual time: a trunk and sources in this process, over modelled links.

Run as a module, by `lifeline`, it prints what they took.
"""

from __future__ import annotations

import json
import sys
import time

import split_work
from paceline.events import Event
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.topologies.base import Environment
from paceline.topologies.split.events import TRUNK, NodeSpent, SplitEpochEnded
from paceline.topologies.split.topology import SplitPlan

_SAMPLES_PER_SECOND = 10_000.0


def main() -> None:
    """Train, and tell."""
    prepared = split_work.prepare(**json.loads(sys.argv[1]))
    marks: list[tuple[float, float]] = []  # of the process, real time and CPU time
    ended: list[SplitEpochEnded] = []
    num_bytes = 0

    def emit(event: Event) -> None:
        nonlocal num_bytes
        if isinstance(event, SplitEpochEnded):
            marks.append((time.perf_counter(), time.process_time()))
            ended.append(event)
        if isinstance(event, NodeSpent) and event.learner != TRUNK and event.epoch == split_work.NUM_EPOCHS:
            num_bytes += event.bytes_sent + event.bytes_received

    model = {"samples_per_second": _SAMPLES_PER_SECOND, "down_mbit": 100.0, "up_mbit": 100.0, "latency_ms": 5.0}
    sources = [VirtualDevice(name=split_work.source_name(n), **model) for n in range(1, prepared.job.sources + 1)]
    trunk = VirtualDevice(name="server", samples_per_second=10 * _SAMPLES_PER_SECOND, is_server=True)
    VirtualFleet([trunk, *sources]).run(SplitPlan(prepared), Environment(emit=emit))
    told = {
        "seconds": marks[-1][0] - marks[-2][0],
        "cpu_seconds": marks[-1][1] - marks[-2][1],
        "virtual_seconds": ended[-1].seconds,
        "num_bytes": num_bytes,
        "loss": ended[-1].train_loss,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
