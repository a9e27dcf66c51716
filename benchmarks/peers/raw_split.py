"""The yardstick of split models: blocking sockets, a length in front of each tensor's bytes, one thread per process.

Run as a module, by `lifeline`, it starts trunk and sources and prints what they took.
"""

from __future__ import annotations

import socket
import time

import numpy as np
import torch

import split_work
from paceline.topologies.split.prepared import PreparedSplit
from peers.raw_tcp import PUSH, receive_message, send_message
from split_work import NUM_EPOCHS, SourcePart, TrunkPart, source_name
from steps import Mark

_CONNECT_SECONDS = 30.0


def take_part(number: int, port: int, prepared: PreparedSplit) -> tuple[Mark, float]:
    """The trunk, which is number 0, or a source; what it took for the last epoch, and the trunk's loss."""
    return _give(number, port, prepared) if number else _lead(port, prepared)


def _lead(port: int, prepared: PreparedSplit) -> tuple[Mark, float]:
    part, start = TrunkPart(prepared), Mark.now()
    shape = prepared.shapes[prepared.cuts[0]]
    num_steps = split_work.num_steps(prepared)
    connections: dict[str, socket.socket] = {}
    with socket.create_server(("127.0.0.1", port)) as listener:
        while len(connections) < prepared.job.sources:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connections[bytes(_receive(connection)).decode()] = connection
    for epoch in range(1, NUM_EPOCHS + 1):
        start = Mark.now()
        for step in range(num_steps):
            inputs = {source: _tensor(_receive(one), shape) for source, one in sorted(connections.items())}
            for source, gradient in part.step(epoch, step, inputs).items():
                send_message(connections[source], PUSH, [_bytes(gradient)])
    taken = Mark.now().since(start)
    for connection in connections.values():
        connection.close()
    return taken, float(np.mean(part.losses[-num_steps:]))


def _give(number: int, port: int, prepared: PreparedSplit) -> tuple[Mark, float]:
    part, start = SourcePart(prepared), Mark.now()
    with _connect(port) as connection:
        send_message(connection, PUSH, [source_name(number).encode()])
        for epoch in range(1, NUM_EPOCHS + 1):
            start = Mark.now()
            for step in range(split_work.num_steps(prepared)):
                send_message(connection, PUSH, [_bytes(part.forward(epoch, step))])
                part.backward(step, _tensor(_receive(connection), part.branch.shape))
        return Mark.now().since(start), 0.0


def _connect(port: int) -> socket.socket:
    give_up = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.02)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


def _receive(connection: socket.socket) -> memoryview:
    message = receive_message(connection)
    if message is None:
        raise ConnectionError("the other side closed the connection")
    return message[1]


def _bytes(tensor: torch.Tensor) -> memoryview:
    return memoryview(tensor.contiguous().numpy()).cast("B")


def _tensor(body: memoryview, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.frombuffer(body, dtype=torch.float32).view(-1, *shape)


if __name__ == "__main__":
    split_work.run_all(take_part)
