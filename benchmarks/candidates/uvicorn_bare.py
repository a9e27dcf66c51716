"""uvicorn (uvloop, httptools) with a bare ASGI app, asked by the standard library's http.client."""

from __future__ import annotations

import http.client
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import uvicorn

from payload import byte_views, make_tensors
from peers.system import SmallCall, SyncSystem, check_answer, run_server

_SLICE_BYTES = 1 << 20  # what the app hands to uvicorn at a time


class UvicornBare(SyncSystem):
    """A kept-alive connection per thread; large answers are read into one buffer."""

    name = "uvicorn"
    packages = ("uvicorn", "uvloop", "httptools")

    def connect(self) -> None:
        self._connections: list[http.client.HTTPConnection] = []
        super().connect()

    def disconnect(self) -> None:
        for connection in self._connections:
            connection.close()

    def open_call(self) -> SmallCall:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self._connections.append(connection)

        def call(payload: bytes) -> bytes:
            connection.request("POST", "/echo", payload)
            return connection.getresponse().read()

        return call

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        num_bytes = sum(tensor.nbytes for tensor in tensors)
        connection = self._connections[0]
        headers = {"Content-Length": str(num_bytes)}
        connection.request("POST", "/push", iter(byte_views(tensors)), headers)
        check_answer(int(connection.getresponse().read()), num_bytes)

    def pull(self) -> Sequence[memoryview]:
        self._connections[0].request("POST", "/pull")
        response = self._connections[0].getresponse()
        body = memoryview(np.empty(int(response.headers["Content-Length"]), np.uint8))
        num_received = 0
        while num_received < len(body):
            num_received += response.readinto(body[num_received:])
        response.read()
        return [body]


def serve(port: int, num_bytes: int) -> None:
    """Serve for ever."""
    # Once a block of this size was freed, glibc keeps smaller ones instead of mapping each anew. In a server as
    # young as this, uvicorn's reads of 256 kB would otherwise cost it half of its speed.
    bytearray(16 << 20)
    state = byte_views(make_tensors(num_bytes))
    slices = [part[at : at + _SLICE_BYTES] for part in state for at in range(0, len(part), _SLICE_BYTES)]

    async def app(
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        body = await _receive_body(scope, receive)
        path = scope["path"]
        parts = [bytes(body)] if path == "/echo" else [str(len(body)).encode()] if path == "/push" else slices
        length = str(sum(len(part) for part in parts)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    config = uvicorn.Config(
        app, "127.0.0.1", port, loop="uvloop", http="httptools", lifespan="off", log_level="warning"
    )
    uvicorn.Server(config).run()


async def _receive_body(scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]]) -> memoryview:
    """The body, copied into one buffer of its announced length."""
    length = next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
    body = memoryview(np.empty(length, np.uint8))
    num_received = 0
    while num_received < length:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client left in the middle of a body")
        chunk = message["body"]
        body[num_received : num_received + len(chunk)] = chunk
        num_received += len(chunk)
    return body


if __name__ == "__main__":
    run_server(serve)
