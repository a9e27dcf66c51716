"""What an epoch of gossip costs: the figures that gossip.py has of every system."""

from __future__ import annotations

SECONDS = "seconds_per_epoch"
COST = "ms_per_model"
"""Seconds of an epoch over the models that were sent in it."""
MODELS = "models_per_peer_epoch"
MEGABYTES = "mb_per_peer_epoch"
"""Questions and answers, counted at those who ask; MB are 10^6 bytes."""
OTHER_KILOBYTES = "other_kb_per_peer_epoch"
"""Of that, what is no model: who takes part, how far they are, and how messages are put together."""
VIRTUAL_SECONDS = "virtual_seconds_per_epoch"


def figures(
    *,
    seconds: float,
    num_peers: int,
    num_models: float,
    model_bytes: int,
    exchange_bytes: float,
    meeting_bytes: float = 0.0,
) -> dict[str, float]:
    """Of an epoch of all peers; see `traffic.Traffic`."""
    num_bytes = exchange_bytes + meeting_bytes
    return {
        SECONDS: seconds,
        COST: seconds * 1e3 / num_models,
        MODELS: num_models / num_peers,
        MEGABYTES: num_bytes / num_peers / 1e6,
        OTHER_KILOBYTES: (num_bytes - num_models * model_bytes) / num_peers / 1e3,
    }


def neighbours(graph: str, number: int, num_peers: int) -> list[int]:
    """Of a peer, from 0, in a ring, or where all know all."""
    if graph == "ring":
        return sorted({(number - 1) % num_peers, (number + 1) % num_peers} - {number})
    return [other for other in range(num_peers) if other != number]
