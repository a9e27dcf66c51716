"""A Redis server for tests and experiments: its own, on a free port of this machine, that keeps nothing on disk."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator

from paceline.errors import PacelineError

PROGRAM = "redis-server"

_START_SECONDS = 20.0


def is_installed() -> bool:
    """Whether there is a Redis server on this machine."""
    return shutil.which(PROGRAM) is not None


class RedisServer:
    """A server that can be killed and started anew, on the same port.

    Attributes:
        url: where it listens.
    """

    def __init__(self, folder: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start it, with further options of the program; returns when it listens."""
        place = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", self._folder)
        self._process = subprocess.Popen(
            [PROGRAM, *place, "--save", "", "--appendonly", "no", *options], stdout=subprocess.DEVNULL
        )
        until = time.monotonic() + _START_SECONDS
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > until:
                raise PacelineError(f"{PROGRAM} on port {self.port} does not listen")
            time.sleep(0.01)

    def kill(self) -> None:
        """End it at once; killing what does not run does nothing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port)):
                return True
        except OSError:
            return False


@contextlib.contextmanager
def started_redis() -> Iterator[RedisServer]:
    """A server that runs while the block does."""
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(folder)
        try:
            server.start()
            yield server
        finally:
            server.kill()
