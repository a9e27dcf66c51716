"""How a gossip run goes on that was interrupted."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import NothingToResume
from paceline.events import Event
from paceline.learning.averaging import State
from paceline.learning.checkpoints import round_name
from paceline.topologies.base import Load
from paceline.topologies.gossip.events import ConsensusMeasured, GossipEnded, GossipStarted, PeerEnded


def peers_name(epoch: int) -> str:
    """Return the name under which is kept what all peers need to go on after an epoch, on virtual time."""
    return f"{round_name(epoch)}.peers"


def events_to_keep(events: Sequence[Event]) -> list[Event]:
    """Keep the events up to the last moment that was kept of all peers; in real time, all, for each kept its own.

    The ends of peers are none in a run that goes on.
    """
    if any(isinstance(event, GossipEnded) for event in events):
        return list(events)
    if not _is_virtual(events):
        return [event for event in events if not isinstance(event, PeerEnded)]
    kept = [index for index, event in enumerate(events) if isinstance(event, ConsensusMeasured)]
    return list(events[: kept[-1] + 1]) if kept else []


def kept_peers(events: Sequence[Event], load: Load) -> State | None:
    """Return what peers on virtual time go on from; None if each has kept its own, or there is nothing yet.

    Raises `ConfigError` if the run is over.
    """
    if any(isinstance(event, GossipEnded) for event in events):
        raise NothingToResume("the run is over; there is nothing to resume")
    measured = [event.epoch for event in events if isinstance(event, ConsensusMeasured)]
    return load(peers_name(measured[-1])) if measured and _is_virtual(events) else None


def _is_virtual(events: Sequence[Event]) -> bool:
    return any(isinstance(event, GossipStarted) and event.clock == "virtual" for event in events)
