"""Paceline itself: over HTTP by waiting stubs and by coroutines, and over TLS with a pinned certificate."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import uvloop

import throughput
from paceline import axon
from paceline.axon.tls import ServerIdentity
from payload import NUM_TENSORS, make_tensors
from peers.system import AsyncSystem, SmallCall, SyncSystem, check_answer, run_server


class Paceline(SyncSystem):
    """Waiting stubs for small calls, push and pull; for many in flight coroutines on uvloop."""

    name = "paceline"
    packages = ("paceline",)
    fingerprint: str | None = None

    def stub(self, kind: type, rpc_name: str) -> Any:
        """A stub of the given class for one of the worker's functions."""
        return kind(worker_ip="127.0.0.1", port=self.port, rpc_name=rpc_name, fingerprint=self.fingerprint)

    def load(self) -> None:
        import torch  # noqa: F401  only here and not above: small calls do without

    def connect(self) -> None:
        self._push = self.stub(axon.client.SyncSimplexStub, "push")
        self._pull = self.stub(axon.client.SyncSimplexStub, "pull")
        super().connect()

    def disconnect(self) -> None:
        """Nothing to do: connections belong to the loop they run on and end with the process."""

    def open_call(self) -> SmallCall:
        return self.stub(axon.client.SyncSimplexStub, "echo")

    def calls_per_second(self, payload: bytes, num_in_flight: int, seconds: float, warmup_seconds: float) -> float:
        async def run() -> float:
            echo = self.stub(axon.client.CoroSimplexStub, "echo")
            return await throughput.of_tasks(echo, payload, num_in_flight, seconds, warmup_seconds)

        return uvloop.run(run())

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        check_answer(self._push(_named_tensors(tensors)), NUM_TENSORS)

    def pull(self) -> Sequence[memoryview]:
        return [memoryview(tensor.numpy()).cast("B") for tensor in self._pull().values()]


class PacelineTls(Paceline):
    """The same, encrypted; the certificate is made here and given to the server by its directory."""

    name = "paceline-tls"

    def __init__(self, num_payload_bytes: int) -> None:
        super().__init__(num_payload_bytes)
        self._directory = tempfile.TemporaryDirectory(prefix="bench-tls-")
        self.fingerprint = ServerIdentity.self_made(self._directory.name).fingerprint

    def server_arguments(self) -> Sequence[str]:
        return (self._directory.name,)

    def disconnect(self) -> None:
        self._directory.cleanup()


class PacelineCoro(AsyncSystem):
    """A small call awaited on uvloop; the rest is measured with `Paceline`."""

    name = "paceline-coro"
    packages = ("paceline",)
    measures_bulk = False

    async def connect_async(self) -> None:
        self._echo = axon.client.CoroSimplexStub(worker_ip="127.0.0.1", port=self.port, rpc_name="echo")

    async def disconnect_async(self) -> None:
        """Nothing to do."""

    async def call_small_async(self, payload: bytes) -> bytes:
        return await self._echo(payload)

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        raise NotImplementedError("measured with Paceline")

    def pull(self) -> Sequence[memoryview]:
        raise NotImplementedError("measured with Paceline")


def _named_tensors(arrays: Sequence[np.ndarray]) -> dict[str, Any]:
    """Torch tensors over the arrays' memory."""
    import torch

    return {str(index): torch.from_numpy(array) for index, array in enumerate(arrays)}


def serve(port: int, num_bytes: int, identity_directory: str | None = None) -> None:
    """Serve until stopped; TLS if a directory with a certificate is given."""
    state = _named_tensors(make_tensors(num_bytes)) if num_bytes else {}
    worker = axon.Worker()

    @worker.rpc(executor="loop")
    def echo(payload):
        return payload

    @worker.rpc(executor="loop")
    def push(tensors):
        return len(tensors)

    @worker.rpc(executor="loop")
    def pull():
        return state

    identity = ServerIdentity.self_made(identity_directory) if identity_directory else None
    worker.run(port=port, identity=identity)


if __name__ == "__main__":
    run_server(serve)
