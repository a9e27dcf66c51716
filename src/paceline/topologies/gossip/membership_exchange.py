"""How peers find each other and keep in touch: they exchange their views, what each knows of all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import paceline
from paceline.axon.retry import retry
from paceline.errors import PacelineError, RemoteError
from paceline.topologies.base import Contact
from paceline.topologies.gossip.calls import BROKEN, Gone, PeerCalls
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.membership import Membership, PeerRecord
from paceline.topologies.gossip.messages import View

_JOIN_SECONDS = 60.0  # that a peer tries to reach its contacts
_TRIAL_SECONDS = 2.0  # that one is waited for who may not be there
_REUNION_SECONDS = 30.0  # that a peer that goes on waits for those that it knew
_REUNION_PAUSE_SECONDS = 0.2

_log = logging.getLogger(__name__)


class ViewExchange:
    """A peer's exchange of views with others.

    Args:
        base: digest of what of the model does not travel.
        rng: draws with whom.
    """

    def __init__(self, job: GossipJob, base: str, membership: Membership, calls: PeerCalls, rng: random.Random) -> None:
        self._probe_seconds = job.probe_seconds
        self._fingerprint = job.fingerprint
        self._base = base
        self._membership = membership
        self._calls = calls
        self._rng = rng

    def answer(self, view: View) -> View:
        """Learn from the view of another, and return the own; `ValueError` if the two cannot train together."""
        name = self._membership.me.name
        if view.version != paceline.__version__:
            raise ValueError(f"this peer runs Paceline {paceline.__version__}, not {view.version[:40]}")
        if view.job != self._fingerprint:
            raise ValueError("this peer trains another job: give all peers the same job file")
        if view.base != self._base:
            raise ValueError(
                "this peer has other values in the parts of the model that do not travel: install the same version of "
                "what makes the model on all devices, and give all peers the same start in [model], or none"
            )
        if view.learner == name:
            raise ValueError(f"this peer is called {name!r}; give each a name of its own")
        before = self._membership.get(view.learner)
        refused = self._membership.merge_encoded(view.members)
        if view.learner in refused:
            raise ValueError(refused[view.learner])
        after = self._membership.get(view.learner)
        was_dead = before is not None and before.status == "dead"
        is_back = before is not None and after is not None and after.is_living and after.is_signed_like(before)
        return self._view(missed_caller=was_dead and is_back)

    async def join(self, contacts: Sequence[Contact]) -> str | None:
        """Exchange views with the first contacts; returns one of them if training has begun there already.

        Raises `PacelineError` if none can be reached for long; `ConfigError` for what is no address.
        """
        errors: list[str] = []
        for number, contact in enumerate(contacts):
            seconds = _JOIN_SECONDS / len(contacts)
            until = asyncio.get_running_loop().time() + seconds
            try:
                view: View = await retry(self._introduction(contact, until), give_up_seconds=seconds, until=until)
                self._membership.merge_encoded(view.members)
            except BROKEN as error:
                errors.append(error.remote_message if isinstance(error, RemoteError) else str(error))
                continue
            await asyncio.gather(*(self._try(other) for other in contacts[number + 1 :]))
            has_begun = any(other.epoch or other.is_done for other in self._membership.others())
            return view.learner if has_begun and self._membership.get(view.learner) is not None else None
        if contacts and not self._membership.others():  # else it was found by others
            raise PacelineError(f"no peer could be joined: {'; '.join(errors)}")
        return None

    def _introduction(self, contact: Contact, until: float) -> Callable[[], Coroutine[Any, Any, View]]:
        """Return what tries to exchange views with a contact, which may take as long as all tries before it.

        What was given up is still on its way: over a slow link, tries as long as the patience could all be too short.
        """
        remote, loop = self._calls.reach(contact), asyncio.get_running_loop()
        began_at = loop.time()

        def exchange() -> Coroutine[Any, Any, View]:
            seconds = max(self._calls.longest_seconds, loop.time() - began_at)
            view: Coroutine[Any, Any, View] = (
                remote.until(until).exchange_views.options(timeout_seconds=seconds).coro(self._view())
            )
            return view

        return exchange

    async def reunite(self, names: Sequence[str], contacts: Sequence[Contact]) -> None:
        """Wait a while until it is known of all of these whether they are back, after a run was interrupted."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _REUNION_SECONDS
        while True:
            if all(self._membership.get(name) is not None for name in names) or loop.time() >= until:
                return
            await asyncio.gather(*(self._try(contact) for contact in contacts))
            await self.exchange_with_one()
            await asyncio.sleep(_REUNION_PAUSE_SECONDS)

    async def exchange_with(self, name: str) -> None:
        """Exchange views with a peer, unless it is gone."""
        with contextlib.suppress(Gone):
            view: View = await self._calls.call(
                name, lambda peer: peer.exchange_views.coro(self._view()), brings_model=False
            )
            self._membership.num_missed += view.missed_caller
            if view.learner != name:
                self._membership.declare_dead(name, f"{view.learner} is at its address")

    async def exchange_with_one(self, preferred: Sequence[PeerRecord] = ()) -> None:
        """Exchange views with one of the living, drawn at random."""
        others = preferred or self._membership.others()
        if others:
            await self.exchange_with(self._rng.choice(others).name)

    async def exchange_with_all(self) -> None:
        """Exchange views with all who live."""
        await asyncio.gather(*(self.exchange_with(record.name) for record in self._membership.others()))

    async def probe_others(self) -> None:
        """Every now and then, probe one of the living, and see whether one of the dead is back; without an end."""
        while True:
            await asyncio.sleep(self._probe_seconds)
            try:
                await self.exchange_with_one()
                dead = [record for record in self._membership.everybody() if record.status == "dead"]
                if dead:  # two sides that were apart for a while took each other for dead: somebody must call first
                    await self._try(self._rng.choice(dead))
            except Exception:
                _log.exception("%s could not probe others; it goes on", self._membership.me.name)

    async def check_rival(self) -> None:
        """If others know a later peer of this name, see whether it is there; raises `PacelineError` if it is."""
        rival = self._membership.rival
        if rival is None:
            return
        name = self._membership.me.name
        try:
            remote = self._calls.remote(rival)
            await remote.exchange_views.options(timeout_seconds=_TRIAL_SECONDS).coro(self._view())
        except RemoteError as error:
            is_other = rival.address != self._membership.me.address
            if is_other and error.device == name:  # a peer refuses the view of its own name
                raise PacelineError(f"another peer has taken the name {name!r}; give each a name of its own") from None
        except BROKEN:
            pass
        self._membership.refute(rival)

    async def say_goodbye(self) -> None:
        """Leave, and let all know who can be reached."""
        if self._membership.me.is_living:
            others = self._membership.others()
            self._membership.amend(status="left")
            await asyncio.gather(*(self._try(record, retry_seconds=_TRIAL_SECONDS) for record in others))

    async def _try(self, whom: Contact | PeerRecord, *, retry_seconds: float = 0.0) -> None:
        """Exchange views with somebody who may not be there; nobody is taken for gone by that."""
        with contextlib.suppress(*BROKEN):
            remote = self._calls.remote(whom) if isinstance(whom, PeerRecord) else self._calls.reach(whom)
            exchange = remote.exchange_views.options(timeout_seconds=_TRIAL_SECONDS, retry_seconds=retry_seconds)
            view: View = await exchange.coro(self._view())
            self._membership.num_missed += view.missed_caller
            if self._membership.me.is_living:
                self._membership.merge_encoded(view.members)

    def _view(self, *, missed_caller: bool = False) -> View:
        return View(
            job=self._fingerprint,
            base=self._base,
            version=paceline.__version__,
            learner=self._membership.me.name,
            members=self._membership.encoded(),
            missed_caller=missed_caller,
        )
