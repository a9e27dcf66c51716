"""Measures one system once and prints its figures as JSON: `python -m probe MODULE:CLASS KIND SETTINGS`."""

from __future__ import annotations

import gc
import importlib
import json
import os
import statistics
import sys
from collections.abc import Callable
from time import perf_counter

import memory
import processes
from measure import CALLS, PULL, PUSH, SMALL_CALL, Settings
from payload import SMALL, make_tensors, same_bytes
from peers.system import System

_MAX_TRANSFERS = 7
_SLOW_SECONDS = 2.0
_NUM_MEMORY_TRANSFERS = 3
_NUM_WARMUP_CALLS = 100


def measure_speed(system: System, settings: Settings) -> dict[str, float]:
    """Latency, transfer rates and calls/s. Each push is checked by its answer; pulls where memory is measured."""
    if system.call_small(SMALL) != SMALL:
        raise AssertionError(f"{system.name} does not echo")
    system.time_small_calls(SMALL, min(_NUM_WARMUP_CALLS, settings.num_small_calls))
    durations = system.time_small_calls(SMALL, settings.num_small_calls)
    figures = {SMALL_CALL: statistics.median(durations) * 1e6}
    if not system.measures_bulk:
        return figures
    tensors = make_tensors(settings.num_payload_bytes)
    figures[PUSH] = megabytes_per_second(lambda: system.push(tensors), settings)
    figures[PULL] = megabytes_per_second(system.pull, settings)
    figures[CALLS] = system.calls_per_second(
        SMALL, settings.num_in_flight, settings.throughput_seconds, settings.warmup_seconds
    )
    return figures


def megabytes_per_second(transfer: Callable[[], object], settings: Settings) -> float:
    """The rate of the median transfer of the whole payload, in 10^6 bytes per second.

    The first transfer only warms up, unless it is so slow that warming up cannot matter.
    """
    durations = [_duration(transfer)]
    if durations[0] < _SLOW_SECONDS:
        durations.clear()
        while sum(durations) < settings.transfer_seconds and len(durations) < _MAX_TRANSFERS:
            durations.append(_duration(transfer))
    return settings.num_payload_bytes / 1e6 / statistics.median(durations)


def _duration(transfer: Callable[[], object]) -> float:
    """Seconds until the result is there; releasing it is not counted."""
    start = perf_counter()
    received = transfer()
    seconds = perf_counter() - start
    del received
    return seconds


def measure_memory(system: System, settings: Settings, direction: str) -> dict[str, float]:
    """Extra peak of both processes, in MB, over the first three transfers of a fresh pair.

    The first, because allocators keep what they once had, and a later one would not show it; three, because what
    is not released at the end of a transfer adds up. The client lets go of each result before the next.
    """
    if not system.measures_bulk or not memory.can_measure_peaks():
        return {}
    tensors = make_tensors(settings.num_payload_bytes) if direction == "push" else []
    for _ in range(10):
        system.call_small(SMALL)
    gc.collect()
    pids = {"client": os.getpid(), "server": system.server_pid}
    before = {side: memory.reset_peak(pid) for side, pid in pids.items()}
    for _ in range(_NUM_MEMORY_TRANSFERS):
        received = system.push(tensors) if direction == "push" else system.pull()
        del received
    extra = {side: memory.peak_bytes(pid) - before[side] for side, pid in pids.items()}
    if direction == "pull" and not same_bytes(system.pull(), make_tensors(settings.num_payload_bytes)):
        raise AssertionError(f"{system.name} does not give back the tensors")
    return {f"{direction}_{side}_peak_mb": num_bytes / 1e6 for side, num_bytes in extra.items()}


def main() -> None:
    """Measure what the arguments say."""
    processes.exit_with_parent()
    spec, kind, settings_json = sys.argv[1:]
    settings = Settings(**json.loads(settings_json))
    module, _, name = spec.partition(":")
    factory: Callable[[int], System] = getattr(importlib.import_module(module), name)
    with factory(settings.num_payload_bytes) as system:
        if kind == "speed":
            figures = measure_speed(system, settings)
        else:
            figures = measure_memory(system, settings, kind.removeprefix("memory-"))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
