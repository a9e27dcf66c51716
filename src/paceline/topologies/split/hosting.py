"""Reaching a trunk."""

from __future__ import annotations

from typing import Any

from paceline import axon
from paceline.axon.transports import Transport
from paceline.topologies.split.messages import TrunkService

_CALL_SECONDS = 300.0  # longer than the trunk holds any call back, and than a large model takes on a slow link


def reach_trunk(url: str, *, transport: Transport | None = None, **trust: Any) -> axon.Remote:
    """A trunk to call.

    Args:
        trust: as for `axon.connect`: token, fingerprint, ca_file.
    """
    return axon.connect(url, interface=TrunkService, transport=transport, timeout_seconds=_CALL_SECONDS, **trust)
