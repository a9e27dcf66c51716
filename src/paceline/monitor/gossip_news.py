"""What is news in a gossip run, where many peers tell the same of each other."""

from __future__ import annotations

from paceline.events import Event
from paceline.topologies.gossip.events import (
    DataMissing,
    GossipEnded,
    PartTakenOver,
    PeerEnded,
    PeerLost,
    PeerSeen,
    PeerStarted,
    StoreBack,
    StoreLost,
)


class News:
    """Says of each event, told in order, whether it is the first to tell of something that is worth a line.

    A peer that is gone is told of once, by the first that misses it, until it starts again; one that has ended is not
    missed. Whom a peer hears of is worth a line only if it is recorded alone: where there are several, each tells of
    itself. A store is lost with the first peer that cannot reach it, and back with the last.
    """

    def __init__(self) -> None:
        self._recorded: set[str] = set()
        self._started: set[str] = set()
        self._seen: set[str] = set()
        self._gone: set[str] = set()
        self._ended: set[str] = set()
        self._without_store: set[str] = set()
        self._missing: set[frozenset[str]] = set()

    def is_news(self, event: Event) -> bool:
        """Whether it is; events that never are a line of their own are not."""
        teller = getattr(event, "learner", None)
        if teller is not None:
            self._recorded.add(teller)
        match event:
            case PeerStarted(learner=name, known=known):
                self._started.add(name)
                self._seen.update(known)
                self._gone.discard(name)
                self._ended.discard(name)
                return True
            case PeerEnded(learner=name):
                self._ended.add(name)
                return True
            case PeerSeen(other=name):
                is_new = name not in self._seen or name in self._gone
                self._seen.add(name)
                if len(self._recorded) > 1:
                    return False
                self._gone.discard(name)
                return is_new and bool(self._started)  # whom it knew as it began is not worth a line each
            case PeerLost(other=name):
                is_new = name not in self._gone and name not in self._ended
                self._gone.add(name)
                return is_new
            case DataMissing(others=others):
                is_new = frozenset(others) not in self._missing
                self._missing.add(frozenset(others))
                return is_new
            case StoreLost(learner=name):
                is_new = not self._without_store
                self._without_store.add(name)
                return is_new
            case StoreBack(learner=name):
                was_without = bool(self._without_store)
                self._without_store.discard(name)
                return was_without and not self._without_store
        return isinstance(event, PartTakenOver | GossipEnded)
