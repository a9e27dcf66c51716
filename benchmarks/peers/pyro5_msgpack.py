"""Pyro5 with its msgpack serialiser, which needs the package msgpack to be there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import Pyro5.api
import Pyro5.serializers

from payload import byte_views, make_tensors
from peers.system import SmallCall, SyncSystem, check_answer, run_server

if "msgpack" not in Pyro5.serializers.serializers:
    raise ModuleNotFoundError("Pyro5's msgpack serialiser needs the package msgpack: pip install msgpack")
Pyro5.config.SERIALIZER = "msgpack"

_OBJECT = "bench"


class Pyro5Msgpack(SyncSystem):
    """A proxy, that is a connection, per thread. msgpack takes the tensors' memory and gives back bytes."""

    name = "pyro5"
    packages = ("Pyro5", "msgpack")

    def connect(self) -> None:
        self._proxies: list[Pyro5.api.Proxy] = []
        super().connect()

    def disconnect(self) -> None:
        for proxy in self._proxies:
            proxy._pyroClaimOwnership()
            proxy._pyroRelease()

    def open_call(self) -> SmallCall:
        proxy = Pyro5.api.Proxy(f"PYRO:{_OBJECT}@127.0.0.1:{self.port}")
        proxy._pyroBind()
        self._proxies.append(proxy)
        return proxy.echo

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        check_answer(self._proxies[0].push(byte_views(tensors)), sum(t.nbytes for t in tensors))

    def pull(self) -> Sequence[memoryview]:
        return [memoryview(part) for part in self._proxies[0].pull()]


@Pyro5.api.expose
class Service:
    """What the daemon serves."""

    def __init__(self, num_bytes: int) -> None:
        self._state = byte_views(make_tensors(num_bytes))

    def echo(self, payload: bytes) -> bytes:
        return payload

    def push(self, parts: list[bytes]) -> int:
        return sum(len(part) for part in parts)

    def pull(self) -> list[memoryview]:
        return self._state


def serve(port: int, num_bytes: int) -> None:
    """Serve for ever."""
    with Pyro5.api.Daemon(host="127.0.0.1", port=port) as daemon:
        daemon.register(Service(num_bytes), _OBJECT)
        daemon.requestLoop()


if __name__ == "__main__":
    run_server(serve)
