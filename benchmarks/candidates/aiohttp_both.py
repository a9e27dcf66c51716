"""aiohttp on both ends, on uvloop; large bodies are streamed into and out of one buffer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import aiohttp
import numpy as np
import uvloop
from aiohttp import web

from payload import byte_views, make_tensors
from peers.system import AsyncSystem, check_answer, run_server

_SLICE_BYTES = 1 << 20  # what is handed to aiohttp at a time


class AiohttpBoth(AsyncSystem):
    """One session whose pool has no limit."""

    name = "aiohttp"
    packages = ("aiohttp", "uvloop")

    async def connect_async(self) -> None:
        self._session = aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", connector=aiohttp.TCPConnector(limit=0))

    async def disconnect_async(self) -> None:
        await self._session.close()

    async def call_small_async(self, payload: bytes) -> bytes:
        async with self._session.post("/echo", data=payload) as response:
            return await response.read()

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        self.run(self._push(tensors))

    async def _push(self, tensors: Sequence[np.ndarray]) -> None:
        num_bytes = sum(tensor.nbytes for tensor in tensors)
        headers = {"Content-Length": str(num_bytes)}
        body = _slices(byte_views(tensors))
        async with self._session.post("/push", data=body, headers=headers) as response:
            check_answer(int(await response.read()), num_bytes)

    def pull(self) -> Sequence[memoryview]:
        return [self.run(self._pull())]

    async def _pull(self) -> memoryview:
        async with self._session.post("/pull") as response:
            return await _read_into_one(response.content, response.content_length or 0)


async def _slices(parts: Sequence[memoryview]) -> AsyncIterator[memoryview]:
    for part in parts:
        for at in range(0, len(part), _SLICE_BYTES):
            yield part[at : at + _SLICE_BYTES]


async def _read_into_one(content: aiohttp.StreamReader, num_bytes: int) -> memoryview:
    """`read()` would keep the chunks and then join them: twice the body at its peak."""
    body = memoryview(np.empty(num_bytes, np.uint8))
    num_received = 0
    async for chunk in content.iter_any():
        body[num_received : num_received + len(chunk)] = chunk
        num_received += len(chunk)
    return body


def serve(port: int, num_bytes: int) -> None:
    """Serve for ever."""
    state = byte_views(make_tensors(num_bytes))

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def push(request: web.Request) -> web.Response:
        body = await _read_into_one(request.content, request.content_length or 0)
        return web.Response(text=str(len(body)))

    async def pull(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = sum(len(part) for part in state)
        await response.prepare(request)
        async for part in _slices(state):
            await response.write(part)
        await response.write_eof()
        return response

    app = web.Application(client_max_size=0)
    app.add_routes([web.post("/echo", echo), web.post("/push", push), web.post("/pull", pull)])
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None, loop=uvloop.new_event_loop())


if __name__ == "__main__":
    run_server(serve)
