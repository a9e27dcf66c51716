"""The yardstick of gossip: models over bare sockets, a connection per pair of neighbours, both ways at the same time.

Run as a module, by `lifeline`, it starts the peers and prints what they took.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import forks
import processes
from commands import told_by
from epochs import figures, neighbours
from model_sizes import num_parameters
from peers.raw_tcp import PUSH, receive_message, send_message
from repeats import MeasurementFailed

_LIMIT_SECONDS = 180.0
_CONNECT_SECONDS = 30.0


def measure_epochs(
    *, widths: Sequence[int], graph: str, num_peers: int, num_epochs: int, is_mixed: bool
) -> dict[str, float]:
    """An epoch of the same models to the same neighbours as in own_gossip, the first left out.

    Args:
        is_mixed: whether peers add their number and mix what they get, as any gossip must; else only bytes are sent.
    """
    setup = {
        "num_parameters": num_parameters(widths),
        "graph": graph,
        "num_peers": num_peers,
        "num_epochs": num_epochs,
        "is_mixed": is_mixed,
    }
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    told = told_by(
        "lifeline",
        *(sys.executable, "-m", "peers.raw_gossip", json.dumps(setup)),
        limit_seconds=_LIMIT_SECONDS,
        environment=environment,
    )
    expected = num_epochs * (num_peers + 1) / 2 if is_mixed else 0.0
    if abs(told["mean"] - expected) > 1e-3 * expected:
        raise MeasurementFailed("the average is not that of the peers")
    num_models = sum(len(neighbours(graph, number, num_peers)) for number in range(num_peers))
    model_bytes = num_parameters(widths) * 4
    return figures(
        seconds=told["seconds"],
        num_peers=num_peers,
        num_models=num_models,
        model_bytes=model_bytes,
        exchange_bytes=num_models * model_bytes,
    )


def main() -> None:
    """Start the peers, wait for them, and tell."""
    setup = json.loads(sys.argv[1])
    if setup["is_mixed"]:
        import torch  # noqa: F401  (before processes are forked)
    ports = [processes.free_port() for _ in range(setup["num_peers"])]
    peers = forks.gather(take_part, range(len(ports)), [ports] * len(ports), [setup] * len(ports))
    print(json.dumps({name: sum(peer[name] for peer in peers) / len(peers) for name in ("seconds", "mean")}))


def take_part(number: int, ports: Sequence[int], setup: dict) -> dict[str, float]:
    """One peer: seconds per epoch, and the mean of its parameters in the end."""
    ended_at = []
    model = np.zeros(setup["num_parameters"], np.float32)
    with _connected(number, ports, setup["graph"]) as connections, ThreadPoolExecutor(2 * len(connections)) as pool:
        for _ in range(setup["num_epochs"]):
            own = model + np.float32(number + 1) if setup["is_mixed"] else model
            sent = [pool.submit(send_message, one, PUSH, [memoryview(own).cast("B")]) for one in connections]
            others = [arrived[1] for arrived in pool.map(receive_message, connections) if arrived is not None]
            if setup["is_mixed"]:
                model = _mixed(own, others)
            for sending in sent:
                sending.result()
            ended_at.append(time.monotonic())
    return {"seconds": (ended_at[-1] - ended_at[0]) / (len(ended_at) - 1), "mean": float(model.mean(dtype=np.float64))}


def _mixed(own: np.ndarray, others: Sequence[memoryview]) -> np.ndarray:
    """The mean of all: Metropolis weights, where all have as many neighbours."""
    import torch

    weight = 1 / (len(others) + 1)
    mixed = torch.from_numpy(own) * weight
    for other in others:
        mixed.add_(torch.frombuffer(other, dtype=torch.float32), alpha=weight)
    return mixed.numpy()


@contextlib.contextmanager
def _connected(number: int, ports: Sequence[int], graph: str) -> Iterator[list[socket.socket]]:
    """A connection to each neighbour: of two, the one with the higher number connects."""
    others = neighbours(graph, number, len(ports))
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", ports[number])))
        connections = [_connect(ports[other]) for other in others if other < number]
        connections += [listener.accept()[0] for other in others if other > number]
        for connection in connections:
            stack.enter_context(connection)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connections


def _connect(port: int) -> socket.socket:
    give_up = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.02)


if __name__ == "__main__":
    main()
