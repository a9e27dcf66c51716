"""``paceline demo``: two worker processes, a real model's parameters there and back, and what that took."""

from __future__ import annotations

import contextlib
import json
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from paceline import axon
from paceline.errors import PacelineError

if TYPE_CHECKING:
    import torch

_NUM_SMALL_CALLS = 300
_NUM_TRANSFERS = 5


def demo(as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False) -> None:
    """Start two workers, send a model's parameters to each and back, and print what was measured.

    Example: paceline demo
    """
    console = Console(stderr=as_json)
    console.print("Starting two workers on this machine: one plain, one with a token and TLS …")
    with _worker("plain") as plain, _worker("secure", "--tls", token=secrets.token_urlsafe(16)) as secure:
        rows = [_measure(name, remote) for name, remote in (("plain", plain), ("token + TLS", secure))]
    if as_json:
        print(json.dumps({"workers": rows}))
        return
    _print(console, rows)


@contextlib.contextmanager
def _worker(device: str, *options: str, token: str | None = None) -> Iterator[axon.Remote]:
    """A worker in a process of its own, started as a user would; stopped at the end."""
    command = [sys.executable, "-m", "paceline", "worker", "paceline.cli.demo_functions", "--port", "0", "--json"]
    if token is not None:
        options = (*options, "--token", token)
    process = subprocess.Popen([*command, "--device", device, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise PacelineError(f"the worker {device} did not start; it ended with status {process.wait()}")
        told = json.loads(line)
        yield axon.connect(told["url"], token=token, fingerprint=told["fingerprint"])
    finally:
        process.terminate()
        process.communicate()


def _measure(name: str, remote: axon.Remote) -> dict[str, Any]:
    from paceline.cli.demo_functions import make_model  # imports torch

    state = make_model().state_dict()
    num_bytes = sum(tensor.nbytes for tensor in state.values())
    remote.load(state)  # also warms the connection up
    push_seconds = _median_seconds(lambda: remote.load(state), _NUM_TRANSFERS)
    pull_seconds = _median_seconds(remote.parameters, _NUM_TRANSFERS)
    return {
        "worker": name,
        "url": remote.url,
        "parameters": sum(tensor.numel() for tensor in state.values()),
        "call_microseconds": round(_median_seconds(remote.ping, _NUM_SMALL_CALLS) * 1e6, 1),
        "push_mb_per_second": round(num_bytes / 1e6 / push_seconds, 1),
        "pull_mb_per_second": round(num_bytes / 1e6 / pull_seconds, 1),
        "identical": _is_identical(state, remote.parameters()),
    }


def _median_seconds(call: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _is_identical(sent: dict[str, torch.Tensor], received: dict[str, torch.Tensor]) -> bool:
    return list(sent) == list(received) and all(sent[key].equal(received[key]) for key in sent)


def _print(console: Console, rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"A model of {rows[0]['parameters']:,} parameters, to each worker and back")
    for heading in ("worker", "small call", "parameters there", "and back", "bit for bit"):
        table.add_column(heading, justify="left" if heading == "worker" else "right")
    for row in rows:
        table.add_row(
            row["worker"],
            f"{row['call_microseconds']:.0f} µs",
            f"{row['push_mb_per_second']:,.0f} MB/s",
            f"{row['pull_mb_per_second']:,.0f} MB/s",
            "same" if row["identical"] else "DIFFERENT",
        )
    console.print(table)
