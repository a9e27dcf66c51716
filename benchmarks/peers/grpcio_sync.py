"""grpcio with threads: raw bytes through a generic handler, no generated code, no size limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from payload import byte_views, make_tensors
from peers.system import SmallCall, SyncSystem, check_answer, run_server

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
ECHO, PUSH, PULL = "/bench/echo", "/bench/push", "/bench/pull"
_NUM_SERVER_THREADS = 8  # 64 is no faster on two cores


class GrpcioSync(SyncSystem):
    """One channel, used by all threads. gRPC sends bytes only, so the tensors are joined first."""

    name = "grpcio"
    packages = ("grpcio",)

    def connect(self) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", OPTIONS)
        self._push, self._pull = self._channel.unary_unary(PUSH), self._channel.unary_unary(PULL)
        super().connect()

    def disconnect(self) -> None:
        self._channel.close()

    def open_call(self) -> SmallCall:
        return self._channel.unary_unary(ECHO)

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        check_answer(int(self._push(b"".join(byte_views(tensors)))), sum(t.nbytes for t in tensors))

    def pull(self) -> Sequence[memoryview]:
        return [memoryview(self._pull(b""))]


class Handler(grpc.GenericRpcHandler):
    """Routes the three methods to functions from bytes to bytes."""

    def __init__(self, methods: dict[str, Callable[[bytes, object], object]]) -> None:
        self._methods = {path: grpc.unary_unary_rpc_method_handler(method) for path, method in methods.items()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._methods.get(handler_call_details.method)


def serve(port: int, num_bytes: int) -> None:
    """Serve for ever."""
    state = byte_views(make_tensors(num_bytes))
    handler = Handler(
        {
            ECHO: lambda request, _: request,
            PUSH: lambda request, _: str(len(request)).encode(),
            PULL: lambda request, _: b"".join(state),
        }
    )
    server = grpc.server(ThreadPoolExecutor(_NUM_SERVER_THREADS), options=OPTIONS)
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    run_server(serve)
