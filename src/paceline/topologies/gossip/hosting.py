"""Serving a peer to others."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from paceline import axon
from paceline.axon.transports import Address
from paceline.topologies.gossip.contacts import limits_for
from paceline.topologies.gossip.messages import PeerService
from paceline.topologies.gossip.peer import Peer


@contextlib.asynccontextmanager
async def hosted(peer: Peer, model_bytes: int, **settings: Any) -> AsyncIterator[Address]:
    """Offer a peer's service while the block runs.

    Args:
        model_bytes: what a model takes; anything larger is refused unread.
        settings: as for `axon.Worker.serving`.
    """
    worker = axon.Worker(peer.name, limits=limits_for(model_bytes))
    for name in sorted(PeerService.__abstractmethods__):
        worker.rpc(name=name)(getattr(peer, name))
    async with worker.serving(grace_seconds=0.5, **settings) as address:
        yield address
