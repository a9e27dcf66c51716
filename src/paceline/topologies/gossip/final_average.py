"""The end: the average of the models of all who live, made by one peer and fetched by the others."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from paceline.axon import loops
from paceline.errors import BadReply
from paceline.learning.averaging import RunningAverage
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.calls import PAUSE_SECONDS, Gone, PeerCalls
from paceline.topologies.gossip.membership import Membership
from paceline.topologies.gossip.messages import ModelReply
from paceline.topologies.gossip.snapshots import Copies


class FinalAverage(NamedTuple):
    """The final model, and the living peers that it is the average of."""

    parameters: Vectors
    averaged: tuple[str, ...]


class FinalAveraging:
    """The first of the living, by name, asks all for their models, and the others ask it for the average.

    If it goes, the next one does so; all models count the same. Whoever has the average also hands it on, since not all
    need agree who the first is.
    """

    def __init__(self, membership: Membership, calls: PeerCalls, like: Vectors) -> None:
        self._membership = membership
        self._calls = calls
        self._like = like
        self._own: Vectors | None = None
        self._is_own_ready = asyncio.Event()
        self._average: FinalAverage | None = None
        self._is_average_ready = asyncio.Event()
        self._is_made_here = False

    async def reach(self, own: Vectors) -> FinalAverage:
        """Return the final model, once all who live are done; `own` is this peer's part in it."""
        self._own = own
        self._is_own_ready.set()
        while self._average is None:
            first = self._membership.living()[0].name
            self._is_made_here = first == self._membership.me.name
            self._average = await (self._collect(own) if self._is_made_here else self._fetch(first))
        self._is_average_ready.set()
        return self._average

    async def linger(self, seconds: float) -> None:
        """Wait until all others have left, if the average was made here and they need it; but not for long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._is_made_here and self._membership.others() and loop.time() < until:
            await asyncio.sleep(PAUSE_SECONDS)

    async def reply_with_own(self, wait_seconds: float) -> ModelReply:
        """Send this peer's model, when it is done."""
        if not await _is_set(self._is_own_ready, wait_seconds) or self._own is None:
            return ModelReply(status="wait")
        return ModelReply(status="ready", parameters=self._own)

    async def reply_with_average(self, wait_seconds: float) -> ModelReply:
        """Send the average, when it is here."""
        if not await _is_set(self._is_average_ready, wait_seconds) or self._average is None:
            return ModelReply(status="wait")
        return ModelReply(status="ready", parameters=self._average.parameters, averaged=self._average.averaged)

    async def _fetch(self, first: str) -> FinalAverage | None:
        """Fetch the average from whoever makes it; None to ask again, maybe another one."""
        name = self._membership.me.name
        try:
            reply: ModelReply = await self._calls.call(first, lambda peer: peer.fetch_average.coro(name))
        except Gone:
            return None
        model = await self._take(first, reply)
        return None if model is None else FinalAverage(model, reply.averaged)

    async def _collect(self, own: Vectors) -> FinalAverage:
        average, averaged = RunningAverage(), []
        found = await asyncio.gather(*(self._ask(record.name) for record in self._membership.others()))
        models = {**{name: model for name, model in found if model is not None}, self._membership.me.name: own}
        for name, model in sorted(models.items()):
            average.add(model, 1.0)
            averaged.append(name)
        return FinalAverage(average.result(own), tuple(averaged))

    async def _ask(self, name: str) -> tuple[str, Vectors | None]:
        """Fetch the model of a peer when it is done; None if it is gone."""
        while True:
            try:
                reply: ModelReply = await self._calls.call(name, lambda peer: peer.fetch_trained.coro())
            except Gone:
                return name, None
            model = await self._take(name, reply)
            if model is not None:
                return name, model

    async def _take(self, name: str, reply: ModelReply) -> Vectors | None:
        """Return the model in a reply, if it is there; whoever sends a malformed one is declared dead."""
        if reply.status == "wait":
            await asyncio.sleep(PAUSE_SECONDS)  # it may answer so at once, again and again
            return None
        try:
            return Copies(self._like).take(name, reply)
        except BadReply as error:
            self._membership.declare_dead(name, str(error))
            return None


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for at most so long; returns whether it has come."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        return await loops.settled(waiting, seconds)
    finally:
        waiting.cancel()
