"""axon-ECRG 0.2.4, the thesis's own Axon: pickle as base64 text in an HTTP form, served by Flask."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

import throughput
from payload import make_tensors
from peers.system import SmallCall, SyncSystem, check_answer, run_server

# axon is imported where it is used: importing it opens pools, and each side needs only its own.


class AxonEcrg(SyncSystem):
    """`SyncStub` for one call at a time; for many the awaitable `GenericStub`, on axon's 100 threads."""

    name = "axon-ecrg"
    packages = ("axon-ECRG", "Flask", "urllib3")

    def connect(self) -> None:
        from axon.config import default_client_tl
        from axon.stubs import GenericStub, SyncStub

        base = f"http://127.0.0.1:{self.port}/rpc"
        self._echo = SyncStub(default_client_tl, f"{base}/echo/__call__")
        self._echo_awaitable = GenericStub(default_client_tl, f"{base}/echo/__call__")
        self._push = SyncStub(default_client_tl, f"{base}/push/__call__")
        self._pull = SyncStub(default_client_tl, f"{base}/pull/__call__")
        super().connect()

    def disconnect(self) -> None:
        from axon.transport_client import http

        http.clear()

    def open_call(self) -> SmallCall:
        return self._echo

    def calls_per_second(self, payload: bytes, num_in_flight: int, seconds: float, warmup_seconds: float) -> float:
        call = self._echo_awaitable
        return asyncio.run(throughput.of_tasks(call, payload, num_in_flight, seconds, warmup_seconds))

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        check_answer(self._push(list(tensors)), sum(t.nbytes for t in tensors))

    def pull(self) -> Sequence[memoryview]:
        return [memoryview(tensor).cast("B") for tensor in self._pull()]


def serve(port: int, num_bytes: int) -> None:
    """Serve for ever, on loopback only: whoever reaches this port runs code in this process."""
    from axon.HTTP_transport.worker import HTTPTransportWorker

    from axon import worker

    class LoopbackWorker(HTTPTransportWorker):
        def run(self) -> None:
            self.app.run(host="127.0.0.1", port=self.port)

    state = make_tensors(num_bytes)
    transport = LoopbackWorker(port=port)
    # Flask 3.1 refuses form fields over 500 kB unless told otherwise; axon does not tell it.
    transport.app.config["MAX_FORM_MEMORY_SIZE"] = None

    @worker.rpc(tl=transport)
    def echo(payload: bytes) -> bytes:
        return payload

    @worker.rpc(tl=transport)
    def push(tensors: list[np.ndarray]) -> int:
        return sum(tensor.nbytes for tensor in tensors)

    @worker.rpc(tl=transport)
    def pull() -> list[np.ndarray]:
        return state

    worker.init(transport)


if __name__ == "__main__":
    run_server(serve)
