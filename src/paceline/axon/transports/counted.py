"""A transport that counts the bytes that another one carries."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from paceline.axon.messages import Body, Reply, Request, Stream, num_bytes
from paceline.axon.transports.base import Address, Transport, TransportWrapper


class CountedTransport(TransportWrapper):
    """Another transport, whose requests and replies are counted; what it serves is not.

    Bodies are counted as they are sent and received. Heads, which have some 200 bytes, and what the network adds are
    not. A request that fails on its way counts as sent.
    """

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.is_free_of_loops = inner.is_free_of_loops
        self.bytes_sent = self.bytes_received = 0

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        self.bytes_sent += num_bytes(request.body)
        reply = await super().request(address, request, timeout=timeout)
        self.bytes_received += num_bytes(reply.body)
        if reply.stream is not None:
            reply.stream = Stream(self._counted(reply.stream), reply.stream.aclose)
        return reply

    async def _counted(self, stream: Stream) -> AsyncGenerator[Body, None]:
        async for body in stream:
            self.bytes_received += num_bytes(body)
            yield body
