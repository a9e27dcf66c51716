"""Serves a thousand learners over TLS, and kills the orchestrator: `python benchmarks/many_learners.py` (ten minutes).

`paceline serve` in a process of its own; learners in two more, real but for sleeping instead of training, each with a
connection of its own; as many further connections that idle; and a probe that makes small calls.

All of them share the cores of one machine, which is a limit of the measurement: where there are fewer cores than busy
processes, small calls wait for a core, too, and learners wait for each other. The processor time for which the loop of
the orchestrator is held at a stretch is what that distorts least.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import commandline
import processes
from repeats import Case, MeasurementFailed, Measurements
from report import Page, page_of_medians

OVERRUN, P99, BACK, LEARNERS, PEAK = "overrun", "p99_ms", "back", "updates", "peak_mb"
HELD, HELD_CPU, CPU = "held_ms", "held_cpu_ms", "cpu_seconds"
TOKEN = "of-the-benchmark"
_WAIT_SECONDS = 300.0

_JOB = """
[job]
rounds = 10000
deadline_seconds = {deadline_seconds}
min_learners = {num_learners}
benchmark_shards = 2

[model]
name = "two-nn"

[data]
name = "digits"
shard_size = 16
"""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How many learners, and how long."""

    num_learners: int = 1000
    num_idle: int = 1000
    rounds_before: int = 8
    rounds_after: int = 4
    deadline_seconds: float = 5.0
    num_repeats: int = 3


QUICK = Settings(num_learners=12, num_idle=8, rounds_before=4, rounds_after=2, deadline_seconds=1.0, num_repeats=1)
"""A size for tests: shows that all of it runs."""


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """The one case there is."""
    return {name: lambda repeat: _measure(settings) for name in systems}


def _measure(settings: Settings) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        job, run, holds = (Path(folder) / name for name in ("job.toml", "run", "holds.jsonl"))
        rules = {name: getattr(settings, name) for name in ("num_learners", "deadline_seconds")}
        job.write_text(_JOB.format(**rules))
        listen = ["--tls", "--token", TOKEN, "--port", str(processes.free_port())]
        with _host(holds, "serve", str(job), "--folder", str(run), *listen) as (host, url):
            for number in range(2):  # each holds half of the learners
                half = settings.num_learners // 2
                arguments = ("learn", url, TOKEN, str(half), str(number * half))
                stack.enter_context(processes.child("crowd", *arguments, environment=_one_thread()))
            _wait_for_rounds(run, 1)
            idle = processes.child("crowd", "idle", url, TOKEN, str(settings.num_idle), stdout=subprocess.PIPE)
            holding = stack.enter_context(idle)
            assert holding.stdout is not None
            if not holding.stdout.readline():
                raise MeasurementFailed("connections that idle were not let in")
            with processes.child("crowd", "call", url, TOKEN, "1", stdout=subprocess.PIPE) as probe:
                assert probe.stdout is not None
                probe.stdout.readline()  # it begins when it has loaded what it needs
                first, began_at, cpu_seconds = len(_closed_rounds(run)), time.time(), -_cpu_seconds(host)
                _wait_for_rounds(run, first + settings.rounds_before)
                cpu_seconds += _cpu_seconds(host)
                peak = psutil.Process(host.pid).memory_info().rss / 1e6
                host.send_signal(signal.SIGKILL)
                host.wait()
                took = _read_until_now(probe)
                killed = len(_closed_rounds(run))
                held = [hold for hold in map(json.loads, holds.read_text().splitlines()) if hold["at"] > began_at]
        with _host(holds, "resume", str(run)):
            _wait_for_rounds(run, killed + settings.rounds_after)
        closed = _closed_rounds(run)
    return {
        OVERRUN: max(one["seconds"] for one in closed[first:]) / settings.deadline_seconds,
        P99: statistics.quantiles(took, n=100)[98],
        LEARNERS: statistics.median(one["num_updates"] for one in closed[first:killed]),
        BACK: closed[killed]["num_updates"] / settings.num_learners,
        PEAK: peak,
        HELD: max((hold["ms"] for hold in held), default=0.0),
        HELD_CPU: max((hold["cpu_ms"] for hold in held), default=0.0),
        CPU: cpu_seconds / settings.rounds_before,
    }


def _one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def _host(holds: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a command that serves; yields it, and the address with its fingerprint."""
    command = [sys.executable, "-m", "watched", str(holds), *arguments, "--json"]
    with subprocess.Popen(
        command,
        cwd=processes.BENCHMARKS,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_one_thread(),
    ) as host:
        try:
            assert host.stdout is not None
            line = host.stdout.readline()
            if not line:
                raise MeasurementFailed(f"{' '.join(arguments)} ended with code {host.wait()}")
            yield host, json.loads(line)["url"]
        finally:
            host.kill()


def _cpu_seconds(host: subprocess.Popen[str]) -> float:
    times = psutil.Process(host.pid).cpu_times()
    return float(times.user + times.system)


def _closed_rounds(run: Path) -> list[dict[str, Any]]:
    events = (json.loads(line) for line in (run / "events.jsonl").read_text().splitlines() if line.endswith("}"))
    return [event for event in events if event["event"] == "round_closed"]


def _wait_for_rounds(run: Path, count: int) -> None:
    give_up = time.monotonic() + _WAIT_SECONDS
    while len(_closed_rounds(run)) < count:
        if time.monotonic() > give_up:
            raise MeasurementFailed(f"round {count} was not closed within {_WAIT_SECONDS:g} s")
        time.sleep(0.2)


def _read_until_now(probe: subprocess.Popen[bytes]) -> list[float]:
    """Milliseconds of the calls so far; raises `MeasurementFailed` if one of them failed."""
    now = time.time()
    assert probe.stdout is not None
    took: list[float] = []
    for line in probe.stdout:
        call = json.loads(line)
        if call["at"] > now - 0.5:  # the last may have met the kill
            break
        if call["ms"] is None:
            raise MeasurementFailed("a small call failed")
        took.append(call["ms"])
    return took


def page_of(measurements: Measurements) -> Page:
    """The table."""
    return page_of_medians(
        measurements,
        setting="learners that sleep instead of training, two-nn on digits, TLS, 40 to 400 samples/s each",
        system="learners",
        columns={
            LEARNERS: "updates a round",
            OVERRUN: "longest round / deadline",
            P99: "p99 of a small call, ms",
            HELD: "loop held at most, ms",
            HELD_CPU: "of processor time, ms",
            CPU: "orchestrator's CPU s a round",
            BACK: "learners in the first round after kill -9",
            PEAK: "orchestrator's MB",
        },
    )


if __name__ == "__main__":
    command = commandline.Command("many_learners", __doc__, ["1000 learners"], ("paceline", "torch", "cryptography"))
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of)
