"""Serving an orchestrator to learners, and reaching one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from paceline import axon
from paceline.axon import Limits
from paceline.axon.transports import Address, Transport
from paceline.topologies.parallel.conductor import Conductor
from paceline.topologies.parallel.messages import OrchestratorService

DEVICE = "orchestrator"

_OVERHEAD_BYTES = 1 << 20  # of a message, besides the parameters in it


@contextlib.asynccontextmanager
async def hosted(orchestrator: Conductor, model_bytes: int, **settings: Any) -> AsyncIterator[Address]:
    """Offer an orchestrator's service while the block runs.

    Args:
        model_bytes: what an update may take; anything larger is refused unread.
        settings: as for `axon.Worker.serving`.
    """
    limits = Limits(max_body_bytes=model_bytes + model_bytes // 8 + _OVERHEAD_BYTES)
    worker = axon.Worker(DEVICE, limits=limits)
    for name in sorted(orchestrator.calls):
        worker.rpc(name=name)(getattr(orchestrator, name))
    async with worker.serving(grace_seconds=0.5, **settings) as address:
        yield address


def reach(url: str, *, transport: Transport | None = None, **trust: Any) -> axon.Remote:
    """An orchestrator to call.

    Args:
        trust: as for `axon.connect`: token, fingerprint, ca_file.
    """
    return axon.connect(url, interface=OrchestratorService, transport=transport, timeout_seconds=60, **trust)
