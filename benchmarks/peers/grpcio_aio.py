"""grpcio's asyncio side: raw bytes through a generic handler, no size limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
import grpc.aio
import numpy as np

from payload import byte_views, make_tensors
from peers.grpcio_sync import ECHO, OPTIONS, PULL, PUSH, Handler
from peers.system import AsyncSystem, check_answer, run_server


class GrpcioAio(AsyncSystem):
    """One channel, one task per call in flight."""

    name = "grpcio-aio"
    packages = ("grpcio",)
    new_loop = staticmethod(asyncio.new_event_loop)  # uvloop is no faster here

    async def connect_async(self) -> None:
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", OPTIONS)
        self._echo = self._channel.unary_unary(ECHO)
        self._push, self._pull = self._channel.unary_unary(PUSH), self._channel.unary_unary(PULL)

    async def disconnect_async(self) -> None:
        await self._channel.close()

    async def call_small_async(self, payload: bytes) -> bytes:
        return await self._echo(payload)

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        check_answer(int(self.run(self._push_async(tensors))), sum(t.nbytes for t in tensors))

    async def _push_async(self, tensors: Sequence[np.ndarray]) -> bytes:
        return await self._push(b"".join(byte_views(tensors)))

    def pull(self) -> Sequence[memoryview]:
        return [memoryview(self.run(self._pull_async()))]

    async def _pull_async(self) -> bytes:
        return await self._pull(b"")


def serve(port: int, num_bytes: int) -> None:
    """Serve for ever."""
    state = byte_views(make_tensors(num_bytes))

    async def echo(request: bytes, _: object) -> bytes:
        return request

    async def push(request: bytes, _: object) -> bytes:
        return str(len(request)).encode()

    async def pull(_request: bytes, _: object) -> bytes:
        return b"".join(state)

    async def run() -> None:
        server = grpc.aio.server(options=OPTIONS)
        server.add_generic_rpc_handlers((Handler({ECHO: echo, PUSH: push, PULL: pull}),))
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()

    asyncio.run(run())


if __name__ == "__main__":
    run_server(serve)
