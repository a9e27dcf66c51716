"""Child processes that cannot outlive their parent: a pipe to their standard input is their lifeline."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

BENCHMARKS = Path(__file__).parent
READY_SECONDS = 60.0
STOP_SECONDS = 5.0


def exit_with_parent() -> None:
    """End this process when the parent closes our standard input, or dies, however it dies."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def child(
    module: str,
    *arguments: str,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `python -m module`, which must call `exit_with_parent`; leaving ends it.

    Commands of others are run by the module `lifeline`. Without `environment` it is that of this process.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=BENCHMARKS,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=environment,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def free_port() -> int:
    """A TCP port of loopback that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    """Return when the process accepts connections on loopback; raise if it ends or takes too long."""
    give_up = time.monotonic() + READY_SECONDS
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with code {process.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            if time.monotonic() > give_up:
                raise TimeoutError(f"no server on port {port} after {READY_SECONDS:g} s") from None
            time.sleep(0.02)
