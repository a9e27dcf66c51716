"""A fleet of devices that join over the network."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from paceline.axon.transports import Address
from paceline.fleets.base import Launch
from paceline.fleets.live import Door, LiveFleet
from paceline.topologies.parallel import Conductor


class JoinedFleet(LiveFleet):
    """Whoever joins.

    Args:
        announce: told where learners can join, once they can.
    """

    def __init__(self, door: Door, announce: Callable[[Address], None] = lambda address: None) -> None:
        super().__init__(door)
        self._announce = announce

    @contextlib.asynccontextmanager
    async def devices(
        self, orchestrator: Conductor, launch: Launch[Any], address: Address
    ) -> AsyncIterator[asyncio.Future[None]]:
        self._announce(address)
        yield asyncio.get_running_loop().create_future()
