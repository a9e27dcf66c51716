"""The end: the average of the models of all who live, made by one peer and fetched by the others."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from paceline.errors import BadReply
from paceline.learning.averaging import RunningAverage
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.board import Copies, is_set
from paceline.topologies.gossip.contacts import PAUSE_SECONDS, Contacts, Gone
from paceline.topologies.gossip.members import Membership
from paceline.topologies.gossip.messages import Shown


class Concluded(NamedTuple):
    """The final model, and the living peers that it is the average of."""

    parameters: Vectors
    averaged: tuple[str, ...]


class Conclusion:
    """Of the living, the first by name asks all for their models, and the others ask it for the average.

    If it goes, the next one does so; all models count the same. Whoever has the average also hands it on, since not all
    need agree who the first is.
    """

    def __init__(self, membership: Membership, contacts: Contacts, like: Vectors) -> None:
        self._membership = membership
        self._contacts = contacts
        self._like = like
        self._own: Vectors | None = None
        self._is_settled = asyncio.Event()
        self._made: Concluded | None = None
        self._is_made = asyncio.Event()
        self._is_made_here = False

    async def reach(self, own: Vectors) -> Concluded:
        """The final model, once all who live are done; `own` is this peer's part in it."""
        self._own = own
        self._is_settled.set()
        while self._made is None:
            first = self._membership.living()[0].name
            if first == self._membership.me.name:
                self._made = await self._collect(own)
                self._is_made_here = True
            else:
                self._made = await self._fetch(first)
        self._is_made.set()
        return self._made

    async def linger(self, seconds: float) -> None:
        """Wait until all others have left, if the average was made here and they need it; but not for long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._is_made_here and self._membership.others() and loop.time() < until:
            await asyncio.sleep(PAUSE_SECONDS)

    async def settled(self, wait_seconds: float) -> Shown:
        """This peer's model, when it is done."""
        if not await is_set(self._is_settled, wait_seconds) or self._own is None:
            return Shown(status="wait")
        return Shown(status="ready", parameters=self._own)

    async def conclude(self, wait_seconds: float) -> Shown:
        """The average, when it is here."""
        if not await is_set(self._is_made, wait_seconds) or self._made is None:
            return Shown(status="wait")
        return Shown(status="ready", parameters=self._made.parameters, averaged=self._made.averaged)

    async def _fetch(self, first: str) -> Concluded | None:
        """The average from whoever makes it; None to ask again, maybe another one."""
        name = self._membership.me.name
        try:
            shown: Shown = await self._contacts.call(first, lambda peer: peer.conclude.coro(name))
        except Gone:
            return None
        model = await self._taken(first, shown)
        return None if model is None else Concluded(model, shown.averaged)

    async def _collect(self, own: Vectors) -> Concluded:
        average, averaged = RunningAverage(), []
        found = await asyncio.gather(*(self._ask(member.name) for member in self._membership.others()))
        models = {**{name: model for name, model in found if model is not None}, self._membership.me.name: own}
        for name, model in sorted(models.items()):
            average.add(model, 1.0)
            averaged.append(name)
        return Concluded(average.result(own), tuple(averaged))

    async def _ask(self, name: str) -> tuple[str, Vectors | None]:
        """The model of a peer when it is done; None if it is gone."""
        while True:
            try:
                shown: Shown = await self._contacts.call(name, lambda peer: peer.settled.coro())
            except Gone:
                return name, None
            model = await self._taken(name, shown)
            if model is not None:
                return name, model

    async def _taken(self, name: str, shown: Shown) -> Vectors | None:
        """The model in an answer, if it is there; whoever shows rubbish is buried."""
        if shown.status == "wait":
            await asyncio.sleep(PAUSE_SECONDS)  # it may answer so at once, again and again
            return None
        try:
            return Copies(self._like).take(name, shown)
        except BadReply as error:
            self._membership.bury(name, str(error))
            return None
