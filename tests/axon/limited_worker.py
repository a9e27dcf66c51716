"""A worker with few descriptors: `python -m tests.axon.limited_worker SOFT HARD TOKEN [tls]`.

Prints its port and the fingerprint of its certificate, and serves until its standard input ends. With an empty token
it asks for none.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import tempfile

from paceline import axon
from paceline.axon import loops

worker = axon.Worker("limited")


@worker.rpc()
async def double(number: int) -> int:
    return 2 * number


@worker.rpc()
async def wait() -> None:
    await asyncio.Event().wait()


@worker.rpc()
async def open_files(count: int) -> int:
    """Have so many files open at once; returns the limit."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(tempfile.TemporaryFile())
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


num_trespasses = 0


@worker.rpc()
async def trespass() -> None:
    """Count what should never be called."""
    global num_trespasses
    num_trespasses += 1


@worker.rpc()
async def count_trespasses() -> int:
    return num_trespasses


async def main(token: str, *, tls: bool) -> None:
    identity = axon.ServerIdentity.self_made() if tls else None
    async with worker.serving(port=0, token=token or None, identity=identity, grace_seconds=0) as address:
        print(address.port, identity.fingerprint if identity else "", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
    loop = loops.new_event_loop()
    loop.run_until_complete(main(sys.argv[3], tls=len(sys.argv) > 4))
    loops.shut_down(loop)
