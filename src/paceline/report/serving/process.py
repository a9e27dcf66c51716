"""The page in a process of its own: making it takes no time from whoever trains."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO

from paceline.axon import loops
from paceline.axon.access import LOOPBACK, TokenAccess, bearer, check_bind
from paceline.axon.host_names import HostNames
from paceline.axon.messages import Reply, Request
from paceline.axon.tls import ServerIdentity
from paceline.axon.transports.base import Address
from paceline.axon.transports.http import HttpTransport
from paceline.errors import TransportError, one_line
from paceline.report.serving.app import HTML, PageApp, run_document
from paceline.report.serving.door import Door

_START_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_PASSED_ON = ("last-event-id",)


@contextlib.asynccontextmanager
async def serving_page(
    path: Path,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    token: str | None = None,
    identity: ServerIdentity | None = None,
    hosts: tuple[str, ...] = (),
    insecure: bool = False,
) -> AsyncIterator[Address]:
    """Serve the page of a run, or of a folder of runs, while the block runs; gives its address.

    Args:
        host: address to listen on; one that other machines can reach needs a token.
        token: what browsers must show.
        identity: certificate to present, for TLS.
        hosts: further names of this machine.
        insecure: allow other machines to look without a token.
    """
    access = TokenAccess(token)
    check_bind(host, is_open=access.is_open, insecure=insecure)
    page = PageApp(path)
    names = HostNames(host, hosts)
    door = Door(page.handle, access.refuse, names, is_open=access.is_open, is_encrypted=identity is not None)
    listener = await HttpTransport().listen(door, host, port, identity)
    try:
        yield listener.address
    finally:
        await listener.close()
        await page.close()


@contextlib.contextmanager
def page_beside(path: Path, port: int, announce: Callable[[str], object]) -> Iterator[None]:
    """Show the page of a run on this machine while the block runs, which does not wait for it.

    Args:
        port: port to listen on; 0 picks a free one.
        announce: receives the address, in another thread; it is not called if the page cannot be shown.
    """
    process = subprocess.Popen(_command(path, port), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"\n")  # no token: only this machine can reach it
    process.stdin.flush()

    def wait_for_port(lines: IO[bytes]) -> None:
        line = lines.readline()
        if line:
            announce(str(Address(LOOPBACK, int(line))))

    waiting = threading.Thread(target=wait_for_port, args=(process.stdout,), daemon=True)
    waiting.start()
    try:
        yield
    finally:
        process.kill()
        waiting.join()
        process.communicate()


class PageProcess:
    """Passes on what browsers ask about a run to a process with its page, which is started by the first of them.

    Args:
        path: folder of the run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = secrets.token_hex(16)  # others on this machine may see the process, but not what it shows
        self._transport = HttpTransport()
        self._starting: asyncio.Task[Address] | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def handle(self, request: Request) -> Reply:
        """Answer somebody who was let in; see `Door`."""
        if request.path == "/":
            return Reply(200, HTML, [run_document(self._path)])
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        passed_on = Request(request.method, request.path, request.query, {**headers, **bearer(self._token)})
        try:
            reply = await self._transport.request(await self.address(), passed_on, timeout=_ANSWER_SECONDS)
        except (TransportError, RuntimeError, OSError) as error:
            self._starting = None  # the next request starts another one
            return Reply.refusal(502, f"the page cannot be shown: {one_line(str(error))}")
        kept = {name: reply.headers[name] for name in ("content-type",) if name in reply.headers}
        return Reply(reply.status, kept, reply.body, reply.stream)

    async def address(self) -> Address:
        """Return where the process listens, on this machine only; starts it if need be."""
        if self._starting is None or (self._process is not None and self._process.returncode is not None):
            await self._kill()
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def close(self) -> None:
        """End the process."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        await self._kill()

    async def _start(self) -> Address:
        process = self._process = await asyncio.create_subprocess_exec(
            *_command(self._path, 0),
            stdin=asyncio.subprocess.PIPE,  # ends when this process is gone, and the page with it
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{self._token}\n".encode())
        line = await loops.within(_START_SECONDS, process.stdout.readline())
        if not line:
            raise RuntimeError("its process ended as it started")
        return Address(LOOPBACK, int(line))

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _command(path: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "paceline.report.serving", str(path), str(port)]
