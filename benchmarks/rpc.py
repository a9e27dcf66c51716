"""Compares Paceline's RPC with its peers on loopback: `python benchmarks/rpc.py` (about five minutes)."""

from __future__ import annotations

import rpc_benchmark
from measure import CALLS, PEAKS, PULL, PUSH, SMALL_CALL
from peers import SYSTEMS
from targets import Target

PACKAGES = ("paceline", "numpy", "torch", "msgspec", "uvloop", "httptools", "cryptography")
PEER_PACKAGES = ("grpcio", "axon-ECRG", "Flask", "urllib3", "Pyro5", "msgpack")

GRPCIO = ("grpcio", "grpcio-aio")
TARGETS = (
    Target("small call p50, paceline / grpcio sync", "paceline", (SMALL_CALL,), ("grpcio",), 0.5, True),
    Target("small call p50, paceline coro / grpcio sync", "paceline-coro", (SMALL_CALL,), ("grpcio",), 0.5, True),
    Target("calls/s, paceline / better grpcio", "paceline", (CALLS,), GRPCIO, 3.0),
    Target("calls/s, paceline / axon-ECRG", "paceline", (CALLS,), ("axon-ecrg",), 20.0),
    Target("push, paceline / raw TCP", "paceline", (PUSH,), ("raw-tcp",), 0.8),
    Target("pull, paceline / raw TCP", "paceline", (PULL,), ("raw-tcp",), 0.8),
    Target("push, paceline / better grpcio", "paceline", (PUSH,), GRPCIO, 3.0),
    Target("pull, paceline / better grpcio", "paceline", (PULL,), GRPCIO, 3.0),
    Target("push, paceline TLS / raw TCP", "paceline-tls", (PUSH,), ("raw-tcp",), 0.3),
    Target("pull, paceline TLS / raw TCP", "paceline-tls", (PULL,), ("raw-tcp",), 0.3),
    Target("largest extra peak, paceline / payload", "paceline", PEAKS, (), 1.2, True),
    Target("largest extra peak, paceline TLS / payload", "paceline-tls", PEAKS, (), 1.2, True),
)


if __name__ == "__main__":
    rpc_benchmark.run(__doc__, SYSTEMS, name="rpc", packages=(*PACKAGES, *PEER_PACKAGES), targets=TARGETS)
