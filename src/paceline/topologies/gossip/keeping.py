"""Keeping how far a peer is, and reading what it goes on from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from paceline.learning.averaging import State
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.mass import MassEntry, MassState
from paceline.topologies.gossip.peer_state import PeerState
from paceline.topologies.gossip.storage import Kept, PeerStorage


class PeerKeeper:
    """Keeps the state of a peer after each epoch, in memory and, if there is a storage, on the device's disk.

    Args:
        storage: keeps it on the disk; None to keep it in memory alone.
        given: what the peer goes on from, if that is not on its disk.
        run_blocking: does what takes time.
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

    def read(self, *, job: str, name: str, like: Vectors) -> tuple[PeerState, MassState | None] | None:
        """Return what the peer goes on from, and its mass; None if it begins. Raises `ConfigError` if it is damaged."""
        kept = Kept(self._given, []) if self._given is not None else None
        if kept is None and self._storage is not None:
            kept = self._storage.load()
        if kept is None:
            return None
        self.newest = state = PeerState.unpack(kept.state, job=job, name=name, like=like)
        mass = state.about.mass
        return state, None if mass is None else mass.after(kept.entries)

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
