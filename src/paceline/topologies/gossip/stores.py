"""Stores: where peers publish what the balancer has to know of them, and read what the others published."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from paceline.errors import TransportError
from paceline.topologies.gossip.figures import Figures
from paceline.topologies.gossip.membership import Membership

RETRY_SECONDS = 15.0
"""Pause before a store that was lost is tried again."""


class Store(ABC):
    """Keeps the newest figures of each peer of a run, for a while.

    A peer calls it on its event loop, and from several tasks if it likes. What a store cannot do, because something far
    away does not answer, raises `TransportError` soon: peers do not wait for it.

    Attributes:
        name: name in messages.
    """

    name: str

    @abstractmethod
    async def publish(self, figures: Figures) -> None:
        """Publish the figures of a peer, in place of those before."""

    @abstractmethod
    async def read(self) -> dict[str, Figures]:
        """Return what peers published and is still valid, by learner; the dictionary is the caller's.

        It may take a while until a peer reads what another has published.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Let go of whatever it holds. Closing what is closed does nothing."""


class GossipedStore(Store):
    """Figures that peers send each other along with who is there; the default, which needs nothing else.

    Those of a peer that is gone are not valid.
    """

    name = "gossip"

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    async def publish(self, figures: Figures) -> None:
        self._membership.amend(figures=figures)

    async def read(self) -> dict[str, Figures]:
        return {record.name: record.figures for record in self._membership.living() if record.figures is not None}

    async def aclose(self) -> None:
        return


class FallbackStore(Store):
    """A store that may be lost, and one to go on with meanwhile.

    Figures are published to both, so that the second knows all when it is needed. As long as the first answers, those
    of the second only stand in for peers that the first knows nothing of: one that was started anew is empty until all
    have found out that it is back. If the second one fails, so does this one.

    Args:
        primary: used while it answers.
        on_lost: receives the reason, once each time that the primary is lost.
        on_back: called once each time that it is back.
        retry_seconds: time from a failure of the primary to the next attempt, by the loop's clock.
    """

    def __init__(
        self,
        primary: Store,
        backup: Store,
        on_lost: Callable[[str], None],
        on_back: Callable[[], None],
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self.name = f"{primary.name}, or else {backup.name}"
        self._primary = primary
        self._backup = backup
        self._on_lost = on_lost
        self._on_back = on_back
        self._retry_seconds = retry_seconds
        self._failed_at: float | None = None  # None while the primary answers

    async def publish(self, figures: Figures) -> None:
        await self._try_primary(lambda: self._primary.publish(figures))
        await self._backup.publish(figures)

    async def read(self) -> dict[str, Figures]:
        found: dict[str, Figures] = {}

        async def read_primary() -> None:
            found.update(await self._primary.read())

        await self._try_primary(read_primary)
        return {**await self._backup.read(), **found}

    async def aclose(self) -> None:
        try:
            await self._primary.aclose()
        finally:
            await self._backup.aclose()

    async def _try_primary(self, use: Callable[[], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        if self._failed_at is not None and loop.time() < self._failed_at + self._retry_seconds:
            return
        try:
            await use()
        except TransportError as error:
            was_lost, self._failed_at = self._failed_at is not None, loop.time()
            if not was_lost:
                self._on_lost(str(error))
        else:
            if self._failed_at is not None:
                self._failed_at = None
                self._on_back()
