"""How peers find each other and keep in touch: they meet, and tell each other what they know of all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Sequence
from typing import NamedTuple

import paceline
from paceline.axon.retry import retry
from paceline.errors import PacelineError, RemoteError
from paceline.topologies.gossip.contacts import BROKEN, Contacts, Gone
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.members import Member, Membership
from paceline.topologies.gossip.messages import View

_JOIN_SECONDS = 60.0  # that a peer tries to reach those it was told of
_GREETING_SECONDS = 2.0  # that one is waited for who may not be there

_log = logging.getLogger(__name__)


class Known(NamedTuple):
    """A peer to begin with: its address, and the fingerprint of its certificate, if it has a self-made one."""

    address: str
    fingerprint: str | None = None


class Meetings:
    """A peer's meetings with others.

    Args:
        chance: whom it meets.
    """

    def __init__(self, job: GossipJob, membership: Membership, contacts: Contacts, chance: random.Random) -> None:
        self._probe_seconds = job.probe_seconds
        self._fingerprint = job.fingerprint
        self._membership = membership
        self._contacts = contacts
        self._chance = chance

    def hear(self, view: View) -> View:
        """What this peer knows, for another that told the same; `ValueError` if the two cannot train together."""
        name = self._membership.me.name
        if view.version != paceline.__version__:
            raise ValueError(f"this peer runs Paceline {paceline.__version__}, not {view.version[:40]}")
        if view.job != self._fingerprint:
            raise ValueError("this peer trains another job: give all peers the same job file")
        if view.learner == name:
            raise ValueError(f"this peer is called {name!r}; give each a name of its own")
        self._membership.hear(view.members)
        return self._view()

    async def join(self, known: Sequence[Known]) -> str | None:
        """Meet those that are known from the start; returns one of them if training has begun there already.

        Raises `PacelineError` if none can be reached for long; `ConfigError` for what is no address.
        """
        errors: list[str] = []
        for number, one in enumerate(known):
            remote = self._contacts.reach(*one)
            try:
                view: View = await retry(
                    lambda: remote.meet.coro(self._view()),  # noqa: B023  (awaited in this turn)
                    give_up_seconds=_JOIN_SECONDS / len(known),
                )
                self._membership.hear(view.members)
            except BROKEN as error:
                errors.append(error.remote_message if isinstance(error, RemoteError) else str(error))
                continue
            await asyncio.gather(*(self._greet(other) for other in known[number + 1 :]))
            has_begun = any(other.epoch or other.is_done for other in self._membership.others())
            return view.learner if has_begun and self._membership.get(view.learner) is not None else None
        if known and not self._membership.others():  # else it was found by others
            raise PacelineError(f"no peer could be joined: {'; '.join(errors)}")
        return None

    async def meet(self, name: str) -> None:
        """Meet a peer, unless it is gone."""
        with contextlib.suppress(Gone):
            view: View = await self._contacts.call(name, lambda peer: peer.meet.coro(self._view()))
            if view.learner != name:
                self._membership.bury(name, f"{view.learner} is at its address")

    async def meet_somebody(self, preferred: Sequence[Member] = ()) -> None:
        """Meet one of the living, by chance."""
        others = preferred or self._membership.others()
        if others:
            await self.meet(self._chance.choice(others).name)

    async def meet_everybody(self) -> None:
        """Meet all who live."""
        await asyncio.gather(*(self.meet(member.name) for member in self._membership.others()))

    async def look_after_others(self) -> None:
        """Every now and then, meet one of the living, and see whether one of the dead is back; without an end."""
        while True:
            await asyncio.sleep(self._probe_seconds)
            try:
                await self.meet_somebody()
                dead = [member for member in self._membership.everybody() if member.status == "dead"]
                if dead:  # two sides that were apart for a while took each other for dead: somebody must call first
                    await self._greet(self._chance.choice(dead))
            except Exception:
                _log.exception("%s could not look after others; it goes on", self._membership.me.name)

    async def face_rival(self) -> None:
        """If others tell of a later peer of this name, see whether it is there; raises `PacelineError` if it is."""
        rival = self._membership.rival
        if rival is None:
            return
        name = self._membership.me.name
        try:
            remote = self._contacts.reach(rival.address, rival.fingerprint)
            await remote.meet.options(timeout_seconds=_GREETING_SECONDS).coro(self._view())
        except RemoteError as error:
            is_other = rival.address != self._membership.me.address
            if is_other and error.device == name:  # it does not meet its own name
                raise PacelineError(f"another peer has taken the name {name!r}; give each a name of its own") from None
        except BROKEN:
            pass
        self._membership.outlive(rival)

    async def say_goodbye(self) -> None:
        """Leave, and tell all who can be reached."""
        others = self._membership.others()
        self._membership.amend(status="left")
        await asyncio.gather(*(self._greet(member) for member in others))

    async def _greet(self, whom: Known | Member) -> None:
        """Meet somebody who may not be there; nobody is taken for gone by that."""
        with contextlib.suppress(*BROKEN):
            remote = self._contacts.remote(whom) if isinstance(whom, Member) else self._contacts.reach(*whom)
            view: View = await remote.meet.options(timeout_seconds=_GREETING_SECONDS).coro(self._view())
            if self._membership.me.is_living:
                self._membership.hear(view.members)

    def _view(self) -> View:
        return View(
            job=self._fingerprint,
            version=paceline.__version__,
            learner=self._membership.me.name,
            members=self._membership.told(),
        )
