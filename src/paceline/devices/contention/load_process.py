"""Program that keeps a device busy: run by its path, with the standard library alone, until its input ends.

    python load_process.py cpu 0.5           half of a core, by wall clock
    python load_process.py disk 8e6          8 MB written and flushed per second
    python load_process.py network 1e8       100 MB sent through the loopback interface per second

It ends when its standard input closes, so also when the process that started it dies. It prints a line when it has
begun.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable

_PERIOD_SECONDS = 0.1
_BLOCK_BYTES = 1 << 18
_TABLE_SIZE = 1 << 15


def burn(ratio: float) -> None:
    """Compute for this share of each period: integers and floating point, over a table that fills a cache."""
    table = [float(number) for number in range(_TABLE_SIZE)]
    position = 0
    while True:
        start = time.monotonic()
        while time.monotonic() - start < ratio * _PERIOD_SECONDS:
            for _ in range(2000):
                position = (position * 5 + 1) % _TABLE_SIZE
                table[position] = table[position] * 0.999 + 1.0
        rest(start)


def write(bytes_per_second: float) -> None:
    """Write to an unnamed temporary file, and flush it to the disk after each period."""
    block, most = os.urandom(_BLOCK_BYTES), 64 * _BLOCK_BYTES
    with tempfile.TemporaryFile(buffering=0) as file:
        pace(bytes_per_second, lambda: file.write(block), lambda: _flush(file.fileno(), most))


def _flush(file: int, most: int) -> None:
    os.fsync(file)
    if os.lseek(file, 0, os.SEEK_CUR) >= most:
        os.lseek(file, 0, os.SEEK_SET)


def send(bytes_per_second: float) -> None:
    """Send to this process over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        out = socket.create_connection(server.getsockname())
        into, _ = server.accept()
    block, buffer = bytes(_BLOCK_BYTES), bytearray(_BLOCK_BYTES)

    def receive() -> None:
        while into.recv_into(buffer):
            pass

    threading.Thread(target=receive, daemon=True).start()
    pace(bytes_per_second, lambda: out.sendall(block), lambda: None)


def pace(bytes_per_second: float, step: Callable[[], object], end_period: Callable[[], object]) -> None:
    """Do steps of one block each, at this rate or as fast as possible."""
    owed = 0.0
    while True:
        start = time.monotonic()
        owed += bytes_per_second * _PERIOD_SECONDS
        while owed >= _BLOCK_BYTES and time.monotonic() - start < _PERIOD_SECONDS:
            step()
            owed -= _BLOCK_BYTES
        owed = min(owed, bytes_per_second * _PERIOD_SECONDS)  # no catching up
        end_period()
        rest(start)


def rest(start: float) -> None:
    """Wait for the end of the period."""
    time.sleep(max(0.0, start + _PERIOD_SECONDS - time.monotonic()))


def end_with_input() -> None:
    """End this process as soon as its input closes."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(0)


KINDS = {"cpu": burn, "disk": write, "network": send}


def main(kind: str, intensity: float) -> None:
    """Keep the device busy until the input ends."""
    print("begun", flush=True)
    threading.Thread(target=end_with_input, daemon=True).start()
    KINDS[kind](intensity)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
