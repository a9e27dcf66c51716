"""A transport that delays, narrows, loses and cuts what another one carries."""

from __future__ import annotations

from collections.abc import Callable

from paceline.axon.messages import Reply, Request
from paceline.axon.transports.base import Address, Transport, TransportWrapper
from paceline.axon.transports.links import Fault, Line, Link


class FaultyTransport(TransportWrapper):
    """Another transport's requests over a bad link, which `cut` and `mend` break and make whole again; see `Line`."""

    def __init__(
        self,
        inner: Transport,
        link: Link = Link(),  # noqa: B008  (frozen)
        plan: Callable[[Request], Fault] | None = None,
    ) -> None:
        super().__init__(inner)
        self._line = Line(link, plan)
        self.cut = self._line.cut
        self.mend = self._line.mend

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        return await self._line.exchange(
            address, request, lambda: self._inner.request(address, request, timeout=timeout), timeout=timeout
        )
