"""HTTP as other clients and servers speak it, well or badly."""

import asyncio
import contextlib
import functools
import socket

import numpy as np
import pytest

from paceline.axon import loops
from paceline.axon.messages import Reply, Request, Stream
from paceline.axon.transports import Address, HttpTransport
from paceline.axon.transports.http import failures, listener, server
from paceline.axon.transports.http.protocol import MAX_HEAD_BYTES
from paceline.errors import BadReply, ConnectionLost, Unreachable


def on_loop(test):
    """Run a coroutine as a test, on an ordinary event loop."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        return asyncio.run(test(*args, **kwargs))

    return run


class EchoApp:
    def admit(self, head, num_body_bytes):
        return Reply.refusal(413, "too large") if num_body_bytes > 10_000_000 else None

    async def handle(self, request):
        if request.path == "/raise":
            raise RuntimeError("a bug in the app")
        return Reply(200, {}, request.body if request.content.nbytes else [request.path.encode()])


@contextlib.asynccontextmanager
async def listening(app=None):
    """The address at which an app is served."""
    listener = await HttpTransport().listen(app or EchoApp(), "127.0.0.1", 0)
    try:
        yield listener.address
    finally:
        await listener.close()


async def ask(address, request=None):
    return await HttpTransport().request(address, request or Request("GET", "/"), timeout=5)


@on_loop
async def talk(*sends):
    """Send bytes to a listening EchoApp, in these pieces, and return everything it answers until it hangs up."""
    async with listening() as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        try:
            for piece in sends:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
            return await asyncio.wait_for(reader.read(), 20)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


POST = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
LAST = POST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def test_any_cut_into_packets():
    for cut in range(1, len(LAST)):
        assert talk(LAST[:cut], LAST[cut:]).endswith(b"\r\n\r\nhello")


def test_pipelining_more_than_is_read_ahead():
    request = b"POST /e HTTP/1.1\r\nContent-Length: 3000\r\n\r\n" + bytes(3000)
    received = talk(request * 40 + LAST)
    assert received.count(b"HTTP/1.1 200 OK") == 41


def test_http_1_0_closes():
    assert talk(b"GET /there HTTP/1.0\r\n\r\n").endswith(b"Content-Length: 6\r\n\r\n/there")


def test_expect_continue():
    head, _, body = POST.partition(b"\r\n\r\n")
    received = talk(head + b"\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n", body)
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x00\xff\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD_BYTES, 431),
        (b"POST /raise HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 500),
    ],
)
def test_bad_requests(request_bytes, status, monkeypatch, caplog):
    monkeypatch.setattr(server, "LINGER_SECONDS", 0.05)
    assert talk(request_bytes).startswith(b"HTTP/1.1 %d " % status)


@on_loop
async def test_refusal_is_seen_by_a_client_that_is_still_sending():
    transport = HttpTransport()
    async with listening() as address:
        request = Request("POST", "/", body=[np.zeros(50_000_000, np.uint8).data])
        assert (await transport.request(address, request, timeout=10)).status == 413
        reply = await transport.request(address, Request("GET", "/there"), timeout=10)
        assert bytes(reply.content) == b"/there"


def test_stalled_and_idle_connections_are_closed(monkeypatch):
    for name in ("STALL_SECONDS", "IDLE_SECONDS", "STRANGER_SECONDS"):
        monkeypatch.setattr(server, name, 0.1)
    for start in (b"", b"POST / HT", b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf"):
        assert talk(start) == b""


def test_too_many_bytes_at_once_are_refused(monkeypatch):
    monkeypatch.setattr(server, "MAX_PENDING_BYTES", 1000)
    monkeypatch.setattr(server, "LINGER_SECONDS", 0.05)
    request = b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    assert b" 200 OK" in talk(request % 1000 + bytes(1000))
    assert b" 503 Service Unavailable" in talk(request % 1001 + bytes(1001))


@contextlib.asynccontextmanager
async def answering(answer):
    """The address of a plain socket that gives every connection this answer."""

    async def respond(reader, writer):
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        yield address_of(server)


def address_of(server):
    return Address("127.0.0.1", server.sockets[0].getsockname()[1])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nContent-Le", ConnectionLost),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", BadReply),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", BadReply),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20_000, BadReply),
    ],
)
@on_loop
async def test_bad_replies(answer, error):
    async with answering(answer) as address:
        with pytest.raises(error, match=str(address)):
            await ask(address)


@pytest.mark.parametrize("chunk", [b"zz\r\n", b"-1\r\n", b"fffffffffff\r\n", b"1" * 40, b"2\r\nabXX", b""])
@on_loop
async def test_bad_streams(chunk):
    async with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk) as address:
        reply = await ask(address)
        with pytest.raises((BadReply, ConnectionLost)):
            await anext(reply.stream)


@on_loop
async def test_no_such_host():
    with pytest.raises(Unreachable, match="no such host"):
        await ask(Address("no-such-host.invalid", 1))


@on_loop
async def test_kept_connection_that_died_unseen_is_replaced():
    """The worker closes it while this loop is blocked, so that nobody has read the end of the connection."""
    closing = asyncio.Event()

    async def serve_one(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await closing.wait()
        writer.close()
        await writer.wait_closed()

    transport = HttpTransport()
    async with await asyncio.start_server(serve_one, "127.0.0.1", 0) as server:
        address = address_of(server)
        await transport.request(address, Request("GET", "/"), timeout=5)
        (connection,) = next(iter(transport._pools.values()))._idle[address]
        connection._transport.pause_reading()  # as blind as a blocked loop
        closing.set()
        await asyncio.sleep(0.05)
        assert (await transport.request(address, Request("GET", "/"), timeout=5)).status == 200


@on_loop
async def test_slow_reader_holds_only_its_own_connection():
    async with listening() as address:
        with socket.create_connection(("127.0.0.1", address.port)) as stuck:
            request = b"POST / HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n" + bytes(8_000_000)
            await asyncio.to_thread(stuck.sendall, request)  # and never reads the echo
            assert (await ask(address)).status == 200


@on_loop
async def test_trickling_head_is_cut_off(monkeypatch):
    monkeypatch.setattr(server, "STRANGER_SECONDS", 0.2)

    async def trickle(writer):
        while True:
            writer.write(b"a")
            await asyncio.sleep(0.05)

    async with listening() as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        trickling = asyncio.ensure_future(trickle(writer))
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        trickling.cancel()
        writer.close()


@on_loop
async def test_full_listener_lets_the_idlest_go(monkeypatch):
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 3)
    async with listening() as address:
        streams = [await asyncio.open_connection("127.0.0.1", address.port) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert (await ask(address)).status == 200
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(streams[0][0].read(), 5) == b""
        for _, writer in streams:
            writer.close()


class TokenApp(EchoApp):
    """Lets in requests with a token only."""

    def admit(self, head, num_body_bytes):
        return None if "authorization" in head.headers else Reply.refusal(401, "the token is missing")


KNOWN = Request("GET", "/there", {}, {"authorization": "Bearer x"})


@on_loop
async def test_refused_requests_that_are_held_open_starve_nobody(monkeypatch):
    """They announce a body and never send it; the sweep, which would close them later, does not run meanwhile."""
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 5)
    async with listening(TokenApp()) as address:
        held = [await asyncio.open_connection("127.0.0.1", address.port) for _ in range(20)]
        for _, writer in held:
            writer.write(b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(10):
            reply = await asyncio.wait_for(HttpTransport().request(address, KNOWN, timeout=5), 5)
            assert bytes(reply.content) == b"/there"
        for _, writer in held:
            writer.transport.abort()


@on_loop
async def test_refused_requests_are_closed_at_once():
    """Also by a client that would keep the connection, without waiting for the sweep."""
    whole = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
    async with listening(TokenApp()) as address:
        for request in (b"GET / HTTP/1.1\r\n\r\n", whole, whole * 3, b"HEAD / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
            writer.write(request)
            received = await asyncio.wait_for(reader.read(), 10)
            assert received.count(b"HTTP/1.1 401 Unauthorized") == 1
            assert received.endswith(b"\r\n\r\n") == request.startswith(b"HEAD")
            writer.close()


class Streams(EchoApp):
    async def handle(self, request):
        async def items():
            yield [b"item"]

        return Reply(200, stream=Stream(items()))


@on_loop
async def test_who_asks_for_the_head_of_a_stream_gets_no_more():
    """Or the next reply on the connection would seem to begin with the stream."""
    request = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
    async with listening(Streams()) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        writer.write(request * 2 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        received = await asyncio.wait_for(reader.read(), 10)
        assert (received.count(b"200 OK"), b"item" in received) == (3, False)
        writer.close()


@on_loop
async def test_a_flood_of_refused_requests_gets_short_answers_and_harms_no_honest_caller(monkeypatch):
    """All come from one address, as behind a NAT."""
    monkeypatch.setattr(failures, "PER_SECOND", 0.0)
    transport = HttpTransport()
    async with listening(TokenApp()) as address:
        statuses = [(await ask(address)).status for _ in range(150)]
        assert statuses == [401] * 100 + [429] * 50
        assert (await ask(address)).headers["retry-after"]
        assert (await transport.request(address, KNOWN, timeout=5)).status == 200
        assert (await HttpTransport().request(address, KNOWN, timeout=5)).status == 200


@on_loop
async def test_slow_consumer_of_a_stream_is_waited_for(monkeypatch):
    monkeypatch.setattr(server, "STALL_SECONDS", 0.2)

    class StreamApp(EchoApp):
        async def handle(self, request):
            return Reply(200, stream=Stream(self.items()))

        async def items(self):
            for _ in range(40):
                yield [bytes(1_000_000)]

    async with listening(StreamApp()) as address:
        reply = await ask(address)
        await anext(reply.stream)
        await asyncio.sleep(2.5)
        assert len([body async for body in reply.stream]) == 39


def test_a_server_that_hangs_up_at_once_is_a_transport_error():
    """Over and over: the end comes before the request is sent, or after, as chance has it."""

    async def main():
        transport = HttpTransport()
        async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
            for _ in range(50):
                with pytest.raises((Unreachable, ConnectionLost)):
                    await transport.request(address_of(server), Request("GET", "/"), timeout=5)

    loop = loops.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loops.shut_down(loop)
