"""Keeping how far a peer is, and reading what it goes on from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from paceline.learning.averaging import State
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.mass import MassEntry, MassState
from paceline.topologies.gossip.peer_state import PeerState
from paceline.topologies.gossip.storage import PeerStorage


class PeerKeeper:
    """Keeps the state of a peer after each epoch, in memory and, if there is a storage, on the device's disk.

    Args:
        storage: keeps it on the disk; None to keep it in memory alone.
        given: what the peer goes on from, if that is not on its disk.
        run_blocking: does what takes time.

    Attributes:
        newest: what was kept last; None if nothing was.
        lost: what was damaged of that which the peer goes on from, in a sentence; None if nothing was.
    """

    def __init__(
        self,
        storage: PeerStorage | None,
        given: State | None,
        run_blocking: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._storage = storage
        self._given = given
        self._run_blocking = run_blocking
        self.newest: PeerState | None = None
        self.lost: str | None = None

    def read(self, *, job: str, name: str, like: Vectors) -> tuple[PeerState, MassState | None] | None:
        """Return what the peer goes on from, and its mass; None if it begins.

        Raises `ConfigError` if nothing is whole, or what is has another job or name.
        """
        kept = self._storage.load() if self._given is None and self._storage is not None else None
        packed = self._given if kept is None else kept.state
        if packed is None:
            return None
        self.newest = state = PeerState.unpack(packed, job=job, name=name, like=like)
        if kept is not None and kept.damage is not None:
            self.lost = f"{kept.damage}; going on from the state before it, after epoch {state.about.epoch}"
        mass = state.about.mass
        if mass is None or kept is None or self._storage is None:
            return state, mass
        return state, mass.after(self._storage.entries(kept.first))

    def journal(self, entry: MassEntry) -> None:
        """Note a change of the mass, before anybody else learns of it."""
        if self._storage is not None:
            self._storage.append(entry)

    async def sync_journal(self) -> None:
        """Wait until what was noted is on the disk."""
        if self._storage is not None:
            await self._run_blocking(self._storage.sync)

    async def keep(self, state: PeerState) -> None:
        """Keep a state; the mass in it is that of this moment."""
        self.newest = state
        if self._storage is not None:
            storage, number = self._storage, self._storage.begin_journal()
            await self._run_blocking(lambda: storage.save(state.packed(), number))

    def discard(self) -> None:
        """Delete what is kept: the run is over, and the next one begins anew."""
        if self._storage is not None:
            self._storage.discard()

    def close(self) -> None:
        """Let go of the storage."""
        if self._storage is not None:
            self._storage.close()
