"""How a gossip run goes on that was interrupted.

On virtual time, what all peers need is kept at one moment, under a number that grows. In real time, each keeps its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import NothingToResume
from paceline.events import Event
from paceline.learning.averaging import State
from paceline.learning.checkpoints import round_name
from paceline.topologies.base import Load, Recovered
from paceline.topologies.gossip.events import ConsensusMeasured, GossipEnded, GossipStarted, PeerEnded
from paceline.topologies.recovery import Notes, newest_whole


class MomentNotes(Notes, frozen=True, kw_only=True):
    """What is kept with the average of all peers at a moment of virtual time.

    Attributes:
        started: the event with which the run began, or went on.
        measured: the event of that moment.
    """

    started: GossipStarted
    measured: ConsensusMeasured


def peers_name(number: int) -> str:
    """Return the name under which is kept what all peers need to go on from a moment of virtual time."""
    return f"{round_name(number)}.peers"


def recover(events: Sequence[Event], load: Load) -> Recovered:
    """Choose the newest moment at which all was kept whole, and the events that stay; see `Topology.recover`.

    In real time all stay but the ends of peers, which are none in a run that goes on.
    """
    if any(isinstance(event, GossipEnded) for event in events):
        return Recovered(list(events), is_over=True)
    recorded = {event.number for event in events if isinstance(event, ConsensusMeasured)}

    def read(number: int) -> MomentNotes:
        notes = MomentNotes.read(load, number)
        load(peers_name(number))
        return notes

    found = newest_whole(recorded.union(load.rounds), read, "state")
    if found is None:
        is_virtual = any(isinstance(event, GossipStarted) and event.clock == "virtual" for event in events)
        return Recovered([] if is_virtual else [event for event in events if not isinstance(event, PeerEnded)])
    newer = [number for number in load.rounds if number > found.number]
    return Recovered(_events_until(events, found.content), found.lost, newer)


def _events_until(events: Sequence[Event], notes: MomentNotes) -> list[Event]:
    """Keep the events up to a moment, and put in what is lost of them that readers of a record rely on."""
    measured = notes.measured
    last = next((at for at, event in enumerate(events) if _number_of(event) == measured.number), None)
    if last is None:  # the process ended between saving and recording it, or the record was cut
        kept = [*(event for event in events if event.at <= measured.at), measured]
    else:
        kept = list(events[: last + 1])
    return kept if any(isinstance(event, GossipStarted) for event in kept) else [notes.started, *kept]


def _number_of(event: Event) -> int | None:
    return event.number if isinstance(event, ConsensusMeasured) else None


def last_number(events: Sequence[Event]) -> int:
    """Return the number of the last moment that is recorded; 0 if there is none."""
    return max((event.number for event in events if isinstance(event, ConsensusMeasured)), default=0)


def kept_peers(recovered: Recovered, load: Load) -> State | None:
    """Return what peers on virtual time go on from; None if each has kept its own, or there is nothing yet.

    Raises `ConfigError` if the run is over.
    """
    if recovered.is_over:
        raise NothingToResume("the run is over; there is nothing to resume")
    number = last_number(recovered.events)
    return load(peers_name(number)) if number else None
