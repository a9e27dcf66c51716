"""A transport to what is served under a path."""

from __future__ import annotations

from dataclasses import replace

from paceline.axon.messages import Reply, Request
from paceline.axon.transports.base import Address, Transport, TransportWrapper


class MountedTransport(TransportWrapper):
    """Another transport, whose requests go below a path, such as ``/relay``; what it serves is not."""

    def __init__(self, inner: Transport, path: str) -> None:
        super().__init__(inner)
        self.is_free_of_loops = inner.is_free_of_loops
        self._path = path

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        below = replace(request, path=f"{self._path}{request.path}")
        return await super().request(address, below, timeout=timeout)
