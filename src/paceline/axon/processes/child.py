"""A child of the process executor: serves one function to its parent until that goes away.

    python -m paceline.axon.processes.child MODULE_OR_SCRIPT FUNCTION DEVICE

reads a token from standard input, prints its port, and ends when standard input does.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
from typing import Any

from paceline.axon import modules
from paceline.axon.wire import UNLIMITED
from paceline.axon.worker import Worker


def main(location: str, name: str, device: str) -> None:
    """Find the function, serve it, and end with the parent."""
    token = sys.stdin.readline().strip()
    port_pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the function prints must not mix with what the parent reads
    threading.Thread(target=_end_with_parent, daemon=True).start()
    worker = Worker(device, limits=UNLIMITED)  # the parent has checked what comes from outside
    function: Any = functools.reduce(getattr, name.split("."), modules.load(location))
    worker.rpc(name="run")(function)

    async def serve() -> None:
        async with worker.serving(port=0, token=token) as address:
            print(address.port, file=port_pipe, flush=True)
            await asyncio.Event().wait()

    asyncio.run(serve())


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
