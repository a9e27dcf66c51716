"""A worker that has more callers than descriptors."""

import asyncio
import contextlib
import errno
import functools
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paceline import axon
from paceline.axon import loops
from paceline.axon.messages import Reply
from paceline.axon.transports.http import listener as listener_module
from paceline.axon.transports.http.descriptors import DescriptorLimit
from paceline.axon.transports.http.listener import HttpListener
from paceline.axon.transports.http.server import ServerConnection
from paceline.errors import Busy
from tests.axon.transports.test_http import EchoApp, ask, on_loop

TOKEN = "secret"
_NUM_FILES = 150


@contextlib.contextmanager
def limited_worker(soft, hard, *options):
    """Start a worker with so many descriptors; yields the port and a way to connect."""
    DescriptorLimit.raised()  # this process needs as many
    command = [sys.executable, "-m", "tests.axon.limited_worker", str(soft), str(hard), TOKEN, *options]
    process = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        port, _, fingerprint = process.stdout.readline().strip().partition(" ")
        url = f"{'https' if fingerprint else 'http'}://127.0.0.1:{port}"
        yield int(port), functools.partial(axon.connect, url, fingerprint=fingerprint or None)
        _, logged = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Traceback" not in logged
    finally:
        process.kill()
        process.communicate()


async def silent(port, count, first_bytes=b""):
    """Open connections that never send a whole request."""
    writers = []
    for _ in range(count):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first_bytes)
        writers.append(writer)
    return writers


async def post(port, name, *, token=TOKEN):
    """Call a function without arguments, and return the streams."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"POST /rpc/{name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n[]".encode()
    )
    return reader, writer


@pytest.mark.parametrize("options", [(), ("tls",)])
@on_loop
async def test_silent_connections_do_not_end_a_worker(options):
    """With and without TLS, of which nobody finishes the handshake."""
    with limited_worker(256, 1024, *options) as (port, connect):
        remote = connect(token=TOKEN)
        assert await remote.double.coro(21) == 42
        writers = await silent(port, 1200)
        writers += await silent(port, 300, b"\x16\x03\x01\x02\x00" if options else b"POST /rpc/double HT")
        assert await connect(token=TOKEN).double.coro(21) == 42
        assert await remote.open_files.coro(_NUM_FILES) == 1024
        for writer in writers:
            writer.transport.abort()


@on_loop
async def test_two_thousand_learners_hold_where_the_system_allows_it():
    with limited_worker(1024, 4096) as (port, connect):
        learners = await asyncio.gather(*(post(port, "wait") for _ in range(2000)))
        assert await connect(token=TOKEN).open_files.coro(_NUM_FILES) == 4096
        assert not any(reader.at_eof() for reader, _ in learners)
        for _, writer in learners:
            writer.transport.abort()


@on_loop
async def test_learners_for_whom_there_is_no_room_are_told_so():
    with limited_worker(1024, 1024) as (port, connect):
        remote = connect(token=TOKEN)
        assert await remote.double.coro(21) == 42
        learners = await asyncio.gather(*(post(port, "wait") for _ in range(700)))
        working = asyncio.ensure_future(remote.wait.coro())
        filling = [await post(port, "wait") for _ in range(60)]
        with pytest.raises(Busy, match=r"as many are connected as there is room for \(7\d\d\); try again") as caught:
            await connect(token=TOKEN).double.coro(21)
        assert caught.value.status == 503 and caught.value.retry_after_seconds > 0
        assert not any(reader.at_eof() for reader, _ in learners) and not working.done()
        for _, writer in learners[:10]:
            writer.transport.abort()
        await asyncio.gather(*(reader.read() for reader, _ in filling if reader.at_eof()))
        while True:
            with contextlib.suppress(Busy):
                assert await connect(token=TOKEN).open_files.coro(_NUM_FILES) == 1024
                break
        working.cancel()
        for _, writer in learners + filling:
            writer.transport.abort()


@on_loop
async def test_strangers_take_bounded_memory_however_many_descriptors_there_are(monkeypatch):
    monkeypatch.setattr(listener_module, "MAX_STRANGERS", 10)
    listener = HttpListener(EchoApp())
    await listener.start("127.0.0.1", 0, None)
    try:
        writers = await silent(listener.address.port, 50)
        assert (await ask(listener.address)).status == 200
        assert listener.crowd.num_strangers <= 10
        for writer in writers:
            writer.transport.abort()
    finally:
        await listener.close()


class BusyAtFirst(EchoApp):
    """Has no room for the first requests, and asks for so many seconds."""

    def __init__(self, retry_after):
        self.num_asked, self._retry_after = 0, retry_after

    async def handle(self, request):
        self.num_asked += 1
        reply = Reply.refusal(503, "full")
        reply.headers = {**reply.headers, "retry-after": self._retry_after}
        return reply


@pytest.mark.parametrize(("retry_after", "seconds"), [("5", 5.0), ("999999", 60.0), ("soon", 0.0), ("-1", 0.0)])
@on_loop
async def test_callers_hear_how_long_to_wait_but_not_for_ever(retry_after, seconds):
    listener = HttpListener(BusyAtFirst(retry_after))
    await listener.start("127.0.0.1", 0, None)
    try:
        with pytest.raises(Busy, match="full") as caught:
            await axon.connect(str(listener.address)).anything.coro()
        assert caught.value.retry_after_seconds == seconds
    finally:
        await listener.close()


class Exhausted:
    """A listening socket on a system without descriptors, for a while."""

    def __init__(self, listening):
        self._listening = listening
        self.num_failures = 0

    def __getattr__(self, name):
        return getattr(self._listening, name)

    def accept(self):
        if self.num_failures < 3:
            self.num_failures += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._listening.accept()


@on_loop
async def test_no_descriptors_for_a_while(monkeypatch, caplog):
    """Accepting is tried again now and then, not all the time, and not by an exception for each."""
    bind = listener_module._bind

    async def bind_exhausted(host, port):
        return [Exhausted(listening) for listening in await bind(host, port)]

    monkeypatch.setattr(listener_module, "_bind", bind_exhausted)
    monkeypatch.setattr(listener_module, "_PAUSE_SECONDS", 0.01)
    listener = HttpListener(EchoApp())
    await listener.start("127.0.0.1", 0, None)
    try:
        assert (await ask(listener.address)).status == 200
        assert listener._sockets[0].num_failures == 3
    finally:
        await listener.close()
    assert [record.getMessage() for record in caplog.records if "ulimit -n" in record.getMessage()] != []
    assert len(caplog.records) == 1


@pytest.mark.parametrize("make_loop", [loops.new_event_loop, asyncio.new_event_loop])
def test_small_packets_are_sent_at_once(make_loop, worker, monkeypatch):
    """Accepting by oneself, one has to see to it on Python's own loop."""
    options = []
    made = ServerConnection.connection_made

    def look(self, transport):
        made(self, transport)
        accepted = transport.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def main():
        worker.rpc(name="double")(lambda number: 2 * number)
        for identity in (None, axon.ServerIdentity.self_made()):
            async with worker.serving(port=0, identity=identity) as address:
                fingerprint = identity and identity.fingerprint
                assert await axon.connect(str(address), fingerprint=fingerprint).double.coro(21) == 42

    monkeypatch.setattr(ServerConnection, "connection_made", look)
    loop = make_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loops.shut_down(loop)
    assert len(options) == 2 and all(options)


@on_loop
async def test_a_name_with_several_addresses():
    listener = HttpListener(EchoApp())
    await listener.start("localhost", 0, None)
    try:
        assert (await ask(listener.address)).status == 200
    finally:
        await listener.close()
        await listener.close()
