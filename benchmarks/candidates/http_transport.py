"""Paceline's own HTTP transport without the RPC on top, on uvloop and on asyncio's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import uvloop

from paceline.axon.messages import Body, Reply, Request
from paceline.axon.transports.base import Address
from paceline.axon.transports.http import HttpTransport
from payload import byte_views, make_tensors
from peers.system import AsyncSystem, check_answer, run_server

_TIMEOUT_SECONDS = 60.0


class HttpTransportUvloop(AsyncSystem):
    """Both sides on uvloop."""

    name = "http-transport-uvloop"
    packages = ("paceline", "uvloop", "httptools")
    server_loop = "uvloop"

    def server_arguments(self) -> Sequence[str]:
        return (self.server_loop,)

    async def connect_async(self) -> None:
        self._transport = HttpTransport()
        self._address = Address("127.0.0.1", self.port)

    async def disconnect_async(self) -> None:
        """Nothing to do: the connections end with the loop."""

    async def call_small_async(self, payload: bytes) -> bytes:
        return bytes(await self._post("/echo", [payload]))

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        answer = self.run(self._post("/push", byte_views(tensors)))
        check_answer(int(bytes(answer)), sum(tensor.nbytes for tensor in tensors))

    def pull(self) -> Sequence[memoryview]:
        return [self.run(self._post("/pull", []))]

    async def _post(self, path: str, body: Body) -> memoryview:
        request = Request("POST", path, body=body)
        reply = await self._transport.request(self._address, request, timeout=_TIMEOUT_SECONDS)
        if reply.status != 200:
            raise RuntimeError(f"{path} answered {reply.status}: {bytes(reply.content)!r}")
        return reply.content


class HttpTransportAsyncio(HttpTransportUvloop):
    """Both sides on asyncio's own loop, as on systems without uvloop."""

    name = "http-transport-asyncio"
    server_loop = "asyncio"
    new_loop = staticmethod(asyncio.new_event_loop)


class _App:
    """Echo, sink and source."""

    def __init__(self, num_bytes: int) -> None:
        self._state = byte_views(make_tensors(num_bytes))

    def admit(self, head: Request, num_body_bytes: int) -> Reply | None:
        return None

    async def handle(self, request: Request) -> Reply:
        if request.path == "/echo":
            return Reply(body=request.body)
        if request.path == "/push":
            return Reply(body=[str(request.content.nbytes).encode()])
        return Reply(body=self._state)


def serve(port: int, num_bytes: int, loop: str) -> None:
    """Serve for ever."""

    async def run() -> None:
        listener = await HttpTransport().listen(_App(num_bytes), "127.0.0.1", port)
        try:
            await asyncio.Event().wait()
        finally:
            await listener.close()

    (uvloop.run if loop == "uvloop" else asyncio.run)(run())


if __name__ == "__main__":
    run_server(serve)
