"""A transport that delays, narrows, loses and cuts what another one carries."""

from __future__ import annotations

from collections.abc import Callable

from paceline.axon.messages import Reply, Request
from paceline.axon.transports.base import Address, Transport, TransportWrapper
from paceline.axon.transports.links import Fault, Link, LinkInUse


class FaultyTransport(TransportWrapper):
    """Sends another transport's requests over a bad link, which `cut` breaks and `mend` mends; see `LinkInUse`."""

    def __init__(
        self,
        inner: Transport,
        link: Link = Link(),  # noqa: B008  (frozen)
        plan: Callable[[Request], Fault] | None = None,
    ) -> None:
        super().__init__(inner)
        self._link = LinkInUse(link, plan)
        self.cut = self._link.cut
        self.mend = self._link.mend

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        return await self._link.exchange(
            address, request, lambda: self._inner.request(address, request, timeout=timeout), timeout=timeout
        )
