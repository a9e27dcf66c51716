"""The yardstick: blocking sockets, an eight-byte length in front, a receive buffer allocated per message."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

import numpy as np

from payload import byte_views, make_tensors
from peers.system import SmallCall, SyncSystem, check_answer, run_server

ECHO, PUSH, PULL = b"e", b"p", b"g"
_HEAD_BYTES = 9


def send_message(connection: socket.socket, kind: bytes, parts: Sequence[memoryview | bytes]) -> None:
    """Send a head and the parts: gathered into one system call where they are small."""
    num_bytes = sum(len(part) for part in parts)
    head = kind + num_bytes.to_bytes(8, "big")
    if num_bytes < 65536:
        connection.sendall(b"".join((head, *parts)))
        return
    connection.sendall(head)
    for part in parts:
        connection.sendall(part)


def receive_message(connection: socket.socket) -> tuple[bytes, memoryview] | None:
    """Kind and body, in memory of its own (`np.empty`: not zeroed, unlike a bytearray); None at the end."""
    head = bytearray(_HEAD_BYTES)
    if not connection.recv_into(head, _HEAD_BYTES, socket.MSG_WAITALL):
        return None
    num_bytes = int.from_bytes(head[1:], "big")
    body = memoryview(np.empty(num_bytes, np.uint8))
    num_received = 0
    while num_received < num_bytes:
        count = connection.recv_into(body[num_received:])
        if not count:
            raise ConnectionError("the connection ended in the middle of a message")
        num_received += count
    return bytes(head[:1]), body


class RawTcp(SyncSystem):
    """Sockets and nothing else; a connection per thread on both sides."""

    name = "raw-tcp"

    def connect(self) -> None:
        self._connections: list[socket.socket] = []
        super().connect()

    def disconnect(self) -> None:
        for connection in self._connections:
            connection.close()

    def open_call(self) -> SmallCall:
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.append(connection)

        def call(payload: bytes) -> bytes:
            send_message(connection, ECHO, [payload])
            return bytes(self._receive(connection))

        return call

    def push(self, tensors: Sequence[np.ndarray]) -> None:
        send_message(self._connections[0], PUSH, byte_views(tensors))
        check_answer(int(bytes(self._receive(self._connections[0]))), sum(t.nbytes for t in tensors))

    def pull(self) -> Sequence[memoryview]:
        send_message(self._connections[0], PULL, [])
        return [self._receive(self._connections[0])]

    @staticmethod
    def _receive(connection: socket.socket) -> memoryview:
        message = receive_message(connection)
        if message is None:
            raise ConnectionError("the server closed the connection")
        return message[1]


def serve(port: int, num_bytes: int) -> None:
    """Serve for ever, a thread per connection."""
    state = byte_views(make_tensors(num_bytes))

    def answer(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while (message := receive_message(connection)) is not None:
                kind, body = message
                if kind == ECHO:
                    send_message(connection, kind, [body])
                elif kind == PUSH:
                    send_message(connection, kind, [str(len(body)).encode()])
                else:
                    send_message(connection, kind, state)
                del message, body  # not kept while the next one is awaited

    with socket.create_server(("127.0.0.1", port), backlog=128) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    run_server(serve)
