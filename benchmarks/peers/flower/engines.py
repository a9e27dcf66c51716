"""Runs the app in `app/` on Flower's two engines as its documentation says: SuperLink, SuperNodes, `flwr run`.

Nothing is tuned but what makes Flower faster here: a client of the simulation takes one CPU instead of two, so that
two run at a time on two cores. Nothing is sent over the network but to loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import memory
import processes
from commands import versions_in
from repeats import MeasurementFailed

COMMANDS = processes.BENCHMARKS.parent / ".venv-flower" / "bin"
APP = Path(__file__).parent / "app"
PACKAGES = ("flwr", "ray", "numpy", "protobuf", "httpx", "uvicorn", "torch")

_RUN_SECONDS = 600.0
_SUBMIT_SECONDS = 60.0
_POLL_SECONDS = 0.05
_CONFIG = """\
[superlink]
default = "bench"

[superlink.bench]
address = "127.0.0.1:{port}"
insecure = true
"""
_ERROR = re.compile(r"^(?:.*ERROR.*:\s+\S.*|[\w.]*(?:Error|Exception)\b.*)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the app does."""

    num_clients: int
    num_rounds: int
    widths: Sequence[int]
    work: Literal["none", "gradient"] = "none"

    def run_config(self, output: Path) -> str:
        """For `flwr run --run-config`."""
        widths = ",".join(map(str, self.widths))
        return (
            f'num-clients={self.num_clients} num-rounds={self.num_rounds} widths="{widths}" '
            f'work="{self.work}" output="{output}"'
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run gave."""

    round_seconds: list[float]
    """One per round; the first includes what happens once, such as starting the clients."""
    server_peak_bytes: int
    """Of SuperLink and all processes that it started."""


def run_deployment(job: Job) -> Outcome:
    """A SuperLink, a SuperNode per client, each with the processes they start themselves, talking over loopback."""
    with _superlink() as link:
        with memory.sampled_tree_peak(link.pid) as peak:
            for number in range(job.num_clients):
                link.start(
                    "flower-supernode",
                    "--insecure",
                    *("--superlink", f"127.0.0.1:{link.port}"),
                    *("--port", str(processes.free_port())),
                    *("--node-config", f"partition-id={number} num-partitions={job.num_clients}"),
                )
            round_seconds = link.run(job)
        return Outcome(round_seconds=round_seconds, server_peak_bytes=peak.num_bytes)


def run_simulation(job: Job) -> Outcome:
    """The clients in Ray's actors; with Ray's own processes in the memory."""
    with _superlink("--simulation") as link:
        with memory.sampled_tree_peak(link.pid) as peak:
            federation = f"num-supernodes={job.num_clients} client-resources-num-cpus=1"
            round_seconds = link.run(job, "--federation-config", federation)
        return Outcome(round_seconds=round_seconds, server_peak_bytes=peak.num_bytes)


def versions() -> dict[str, str | None]:
    """Of what is installed in Flower's environment; empty if there is none."""
    return versions_in(COMMANDS / "python", PACKAGES, "flower")


@dataclass
class _SuperLink:
    """A running SuperLink and what was started beside it; `home` holds configuration, logs and Ray's files."""

    home: Path
    port: int
    stack: contextlib.ExitStack
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The process whose descendants are the server."""
        return self.started[0].pid

    def start(self, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command of Flower's; it ends with us."""
        log = self.stack.enter_context((self.home / f"{command}-{len(self.started)}.log").open("wb"))
        process = self.stack.enter_context(
            processes.child(
                "lifeline",
                str(COMMANDS / command),
                *arguments,
                stdout=log,
                stderr=subprocess.STDOUT,
                environment=self.environment(),
            )
        )
        self.started.append(process)
        return process

    def run(self, job: Job, *arguments: str) -> list[float]:
        """Submit the app and wait for the seconds of its rounds."""
        output = self.home / "output.json"
        submitted = subprocess.run(
            [COMMANDS / "flwr", "run", APP, "bench", "--run-config", job.run_config(output), *arguments],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SUBMIT_SECONDS,
        )
        if submitted.returncode != 0:
            raise MeasurementFailed(f"flwr run: {submitted.stderr.strip() or submitted.stdout.strip()}")
        give_up = time.monotonic() + _RUN_SECONDS
        while not output.exists():
            if time.monotonic() > give_up:
                raise MeasurementFailed(f"no result after {_RUN_SECONDS:g} s{self.errors()}")
            if any(process.poll() is not None for process in self.started):
                raise MeasurementFailed(f"a process of Flower ended{self.errors()}")
            time.sleep(_POLL_SECONDS)
        document = json.loads(output.read_text())
        if "error" in document:
            raise MeasurementFailed(f"{document['error']}{self.errors()}")
        return list(document["round_seconds"])

    def errors(self) -> str:
        """What the logs say went wrong, as the end of a sentence."""
        logs = (path.read_text(errors="replace") for path in sorted(self.home.glob("*.log")))
        found = dict.fromkeys(line for log in logs for line in _ERROR.findall(log))
        return "".join(f"; {line}" for line in found)

    def end_all(self) -> None:
        """Ask all at once; leaving the stack then waits for each."""
        for process in self.started:
            assert process.stdin is not None
            process.stdin.close()

    def environment(self) -> dict[str, str]:
        """No telemetry, no look for updates, nothing written to the home directory."""
        return {
            **os.environ,
            "PATH": f"{COMMANDS}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(self.home),
        }


@contextlib.contextmanager
def _superlink(*arguments: str) -> Iterator[_SuperLink]:
    if not (COMMANDS / "flower-superlink").exists():
        raise MeasurementFailed("Flower is not installed: `make bench-flower` does it")
    with tempfile.TemporaryDirectory(prefix="flower-") as home, contextlib.ExitStack() as stack:
        link = _SuperLink(Path(home), processes.free_port(), stack)
        (link.home / "config.toml").write_text(_CONFIG.format(port=link.port))
        process = link.start(
            "flower-superlink",
            "--insecure",
            *("--host", "127.0.0.1", "--port", str(link.port)),
            "--disable-runtime-dependency-installation",
            *arguments,
        )
        try:
            processes.wait_until_listening(process, link.port)
            yield link
        except (RuntimeError, TimeoutError, subprocess.TimeoutExpired) as error:
            raise MeasurementFailed(f"{error}{link.errors()}") from error
        finally:
            link.end_all()
