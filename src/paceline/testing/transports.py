"""The contract of transports: what every stub and worker relies on, whatever carries the requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

from paceline import axon
from paceline.axon import client
from paceline.axon.messages import Reply, Request, Stream
from paceline.axon.transports import Address, Listener, Transport
from paceline.errors import ConnectionLost, Refused, RemoteError, TimedOut, Unreachable

STUBS = [f"{form}{way}" for form in ("Sync", "Async", "Coro") for way in ("Simplex", "Duplex")]


class EchoApp:
    """Answers with what it was sent; ``/forbidden`` is refused, ``/slow`` never answered, ``/stream`` three bodies."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.requests: list[Request] = []

    def admit(self, head: Request, num_body_bytes: int) -> Reply | None:
        return Reply.refusal(403, "forbidden") if head.path == "/forbidden" else None

    async def handle(self, request: Request) -> Reply:
        self.requests.append(request)
        if request.path == "/slow":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if request.path == "/stream":
            return Reply(200, stream=Stream(self._three()))
        return Reply(200, {"x-echo": request.headers.get("x-word", "")}, request.body)

    async def _three(self) -> AsyncGenerator[Any, None]:
        try:
            for number in range(3):
                yield [b"%d" % number]
            await asyncio.sleep(3600)
        finally:
            self.cancelled.set()


def _exchanging(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine: it gets an `EchoApp`, the listener that serves it, and the client's transport."""

    def test_exchange(self: Any, run: Any, client_transport: Transport, worker_transport: Transport) -> None:
        async def main() -> None:
            app = EchoApp()
            listener = await worker_transport.listen(app, "127.0.0.1", 0)
            try:
                await test(self, app, listener, client_transport)
            finally:
                await listener.close()

        run(main())

    return test_exchange


class TransportContract:
    """Requests and replies as `Transport` promises them.

    Provide fixtures `client_transport` and `worker_transport` (may be the same object), and `run`, which runs a
    coroutine to its end on an event loop of the kind the transport needs.
    """

    @pytest.fixture
    def run(self) -> Callable[[Awaitable[Any]], Any]:
        """Run on an ordinary event loop."""
        return asyncio.run  # type: ignore[return-value]

    @_exchanging
    async def test_request_and_reply_arrive(self, app: EchoApp, listener: Listener, client: Transport) -> None:
        request = Request("POST", "/echo", {"a": "1 ü"}, {"x-word": "hello"}, [b"ab", memoryview(b"cd")])
        reply = await client.request(listener.address, request, timeout=5)
        assert (reply.status, bytes(reply.content), reply.headers["x-echo"]) == (200, b"abcd", "hello")
        (seen,) = app.requests
        assert (seen.method, seen.path, seen.query) == ("POST", "/echo", {"a": "1 ü"})
        assert seen.peer
        reply = await client.request(listener.address, Request("GET", "/echo"), timeout=5)
        assert reply.content.nbytes == 0

    @_exchanging
    async def test_receiver_gets_a_buffer_of_its_own(self, app: EchoApp, listener: Listener, client: Transport) -> None:
        sent = np.arange(300_000, dtype=np.uint8)
        reply = await client.request(listener.address, Request("POST", "/echo", body=[sent.data]), timeout=5)
        (received,) = app.requests[0].body
        assert not np.shares_memory(np.asarray(received), sent)
        assert not np.shares_memory(np.asarray(reply.content), np.asarray(received))
        assert np.array_equal(np.asarray(reply.content), sent)
        assert not reply.content.readonly

    @_exchanging
    async def test_refused_unread(self, app: EchoApp, listener: Listener, client: Transport) -> None:
        request = Request("POST", "/forbidden", body=[bytes(5_000_000)])
        assert (await client.request(listener.address, request, timeout=5)).status == 403
        assert app.requests == []
        assert (await client.request(listener.address, Request("GET", "/echo"), timeout=5)).status == 200

    @_exchanging
    async def test_timeout_cancels_the_far_side(self, app: EchoApp, listener: Listener, client: Transport) -> None:
        with pytest.raises(TimedOut):
            await client.request(listener.address, Request("POST", "/slow"), timeout=0.2)
        await asyncio.wait_for(app.cancelled.wait(), 5)

    @_exchanging
    async def test_cancelling_cancels_the_far_side(self, app: EchoApp, listener: Listener, client: Transport) -> None:
        (await _slow_call(app, listener, client)).cancel()
        await asyncio.wait_for(app.cancelled.wait(), 5)

    @_exchanging
    async def test_nobody_there(self, app: EchoApp, listener: Listener, client: Transport) -> None:
        await listener.close()
        with pytest.raises(Unreachable):
            await client.request(listener.address, Request("GET", "/"), timeout=5)

    @_exchanging
    async def test_listener_closed_in_mid_call(self, app: EchoApp, listener: Listener, client: Transport) -> None:
        call = await _slow_call(app, listener, client)
        await listener.close()
        with pytest.raises(ConnectionLost):
            await call

    @_exchanging
    async def test_stream_and_its_early_end(self, app: EchoApp, listener: Listener, client: Transport) -> None:
        reply = await client.request(listener.address, Request("GET", "/stream"), timeout=5)
        assert reply.stream is not None
        async with contextlib.aclosing(reply.stream) as stream:
            assert [bytes(memoryview((await anext(stream))[0])) for _ in range(3)] == [b"0", b"1", b"2"]
        await asyncio.wait_for(app.cancelled.wait(), 5)


async def _slow_call(app: EchoApp, listener: Listener, client: Transport) -> asyncio.Future[Reply]:
    """Start a call that never ends, and wait until it has reached the app."""
    call = asyncio.ensure_future(client.request(listener.address, Request("POST", "/slow"), timeout=60))
    while not app.requests:
        await asyncio.sleep(0.01)
    return call


def make_worker() -> axon.Worker:
    """A worker with a function of each sort, for `StubContract`."""
    worker = axon.Worker("tester")

    @worker.rpc()
    def add(a: int, b: int = 1) -> int:
        return a + b

    @worker.rpc()
    async def add_async(a: int, b: int = 1) -> int:
        return a + b

    @worker.rpc(executor="loop")
    def scale(array: np.ndarray, factor: float) -> np.ndarray:
        return array * factor

    @worker.rpc()
    def fail() -> None:
        raise ValueError("on purpose")

    @worker.rpc()
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    @worker.rpc()
    async def count_async(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    return worker


class StubContract:
    """All six stubs on one transport.

    Provide fixtures `client_transport` and `worker_transport`. Blocking stubs run on Axon's background loop, and so
    does the worker.
    """

    @pytest.fixture
    def address(self, worker_transport: Transport) -> Iterator[Address]:
        """A worker made by `make_worker`, being served."""
        with make_worker().serve(port=0, transport=worker_transport) as address:
            yield address

    @pytest.fixture(params=STUBS)
    def call(self, request: Any, address: Address, client_transport: Transport) -> Callable[..., Any]:
        """Call a function through each stub in turn; streams come as lists."""

        def call(rpc_name: str, *args: Any, **kwargs: Any) -> Any:
            stub = getattr(client, f"{request.param}Stub")(
                address.host, rpc_name, port=address.port, transport=client_transport, timeout_seconds=20
            )
            result = stub(*args, **kwargs)
            if request.param.startswith("Async"):
                result = result.join(20)
            elif request.param.startswith("Coro"):
                result = axon.loops.background.run(_awaited(result))
            return list(result) if hasattr(result, "__next__") else result

        return call

    def test_result(self, call: Any) -> None:
        assert call("add", 1, b=2) == 3
        assert call("add_async", 1) == 2

    def test_array(self, call: Any) -> None:
        array = np.arange(100_000, dtype=np.float32)
        assert np.array_equal(call("scale", array, 2.0), array * 2)

    def test_far_exception(self, call: Any) -> None:
        with pytest.raises(RemoteError) as caught:
            call("fail")
        assert (caught.value.type_name, caught.value.remote_message) == ("ValueError", "on purpose")
        assert caught.value.device == "tester"
        assert 'raise ValueError("on purpose")' in caught.value.remote_traceback

    def test_stream(self, call: Any) -> None:
        assert call("count", 40) == list(range(40))
        assert call("count_async", 40) == list(range(40))
        assert call("count", 0) == []

    def test_wrong_arguments_and_names(self, call: Any) -> None:
        with pytest.raises(Refused, match=r"add.*missing a required argument: 'a'"):
            call("add")
        with pytest.raises(Refused, match=r"argument 'a'.*int.*str"):
            call("add", "one")
        with pytest.raises(Refused, match="no rpc 'ad'; did you mean 'add'"):
            call("ad", 1)


async def _awaited(coroutine: Any) -> Any:
    result = await coroutine
    return [item async for item in result] if isinstance(result, axon.ValueStream) else result
