"""What sources send at the sync points of an epoch, and the replies that they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from typing import Any

from paceline.axon import loops
from paceline.topologies.split.messages import SyncPoint, SyncReply, Tensors


class EpochBarrier:
    """The sync points of one epoch, one after the other.

    Args:
        kept: replies of so many sync points are kept, for who asks again because one was lost on its way.

    Attributes:
        index: the sync point that is open.
    """

    def __init__(self, epoch: int, points: Sequence[SyncPoint], kept: int) -> None:
        self.epoch = epoch
        self.points = points
        self.index = 0
        self._kept = kept
        self._received: dict[int, dict[str, Any]] = {}
        self._replies: dict[tuple[int, str], asyncio.Future[SyncReply]] = {}

    def has(self, source: str, index: int) -> bool:
        """Return whether a source has sent what it should."""
        return source in self._received.get(index, ())

    def put(self, source: str, index: int, content: Any) -> None:
        """Keep what a source sent for a sync point that is open, or still to come."""
        self._received.setdefault(index, {})[source] = content

    def received(self, index: int) -> dict[str, Any]:
        """Return what was sent for a sync point so far, by source."""
        return self._received.get(index, {})

    def waiting_after(self, index: int) -> Set[str]:
        """Return who has sent something for a later sync point."""
        return {source for later, box in self._received.items() if later > index for source in box}

    def discard(self, source: str) -> None:
        """Drop what a source sent that nobody has looked at: it will send it anew."""
        for index, box in self._received.items():
            if index >= self.index:
                box.pop(source, None)

    def reply(self, replies: Mapping[str, Tensors]) -> None:
        """Reply to all who sent something for the open sync point, and go on to the next."""
        for source in self._received.pop(self.index, {}):
            reply = self._reply(source, self.index)
            if not reply.done():
                reply.set_result(SyncReply(status="ready", tensors=dict(replies.get(source, {}))))
        self.index += 1
        for index, source in [key for key in self._replies if key[0] < self.index - self._kept]:
            del self._replies[index, source]

    async def reply_to(self, source: str, index: int, wait_seconds: float) -> SyncReply:
        """Wait for the reply to a source; ``wait`` if that takes long."""
        if index < self.index and (index, source) not in self._replies:
            return SyncReply(status="late")
        reply = self._reply(source, index)
        return reply.result() if await loops.settled(reply, wait_seconds) else SyncReply(status="wait")

    def _reply(self, source: str, index: int) -> asyncio.Future[SyncReply]:
        key = (index, source)
        if key not in self._replies:
            self._replies[key] = asyncio.get_running_loop().create_future()
        return self._replies[key]

    def close(self) -> None:
        """Reply "late" to all who still wait."""
        for reply in self._replies.values():
            if not reply.done():
                reply.set_result(SyncReply(status="late"))
