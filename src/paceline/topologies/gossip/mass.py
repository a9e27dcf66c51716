"""Mass, the weights of push-sum gossip (GoSGD): whole numbers, so that nothing is lost or made by rounding.

A peer that pushes its model sends half of its mass along; the model that arrives counts by the mass that it brings.
Every push has a name. It is repeated until it is confirmed, and counts once, however often it arrives.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec

FULL_MASS = 1 << 60
"""Mass of a peer that is there from the beginning."""

MAX_MASS = FULL_MASS << 12
"""Largest mass that is believed of a model: more than all peers together can have."""

_REMEMBERED = 4096  # pushes that a receiver knows again
_KEPT_ARRIVALS = 256  # of them, on its disk: those that may still be repeated


class Push(NamedTuple):
    """A push under way: its name, to whom, and the mass in it."""

    transfer: str
    to: str
    mass: int


class MassEntry(msgspec.Struct, frozen=True, array_like=True):
    """A change of a peer's mass: what happened to which push, to whom it goes, and how much it is."""

    kind: Literal["begin", "send", "confirm", "take back", "arrive"]
    transfer: str = ""
    to: str = ""
    mass: int = 0


class MassState(msgspec.Struct, frozen=True):
    """A peer's mass at one moment.

    Attributes:
        held: mass of its model, and of those that arrived.
        under_way: pushes that are not confirmed.
        arrived: the last pushes that came, to know them again.
    """

    held: int
    under_way: tuple[Push, ...] = ()
    arrived: tuple[str, ...] = ()

    def after(self, entries: Iterable[MassEntry]) -> MassState:
        """Return it after some changes."""
        held, under_way = self.held, {push.transfer: push for push in self.under_way}
        arrived = list(self.arrived)
        for entry in entries:
            match entry.kind:
                case "begin":
                    held += entry.mass
                case "send":
                    held -= entry.mass
                    under_way[entry.transfer] = Push(entry.transfer, entry.to, entry.mass)
                case "confirm":
                    under_way.pop(entry.transfer, None)
                case "take back":
                    push = under_way.pop(entry.transfer, None)
                    held += push.mass if push is not None else 0
                case "arrive":
                    held += entry.mass
                    arrived.append(entry.transfer)
        return MassState(held, tuple(under_way.values()), tuple(arrived[-_REMEMBERED:]))


class MassAccount:
    """The mass of a peer's model, and what it has under way.

    Args:
        journal: receives each change, before anybody else learns of it.

    Attributes:
        mass: mass of the model that the peer has.
        waiting: mass of models that arrived, and are not merged yet.
    """

    def __init__(self, journal: Callable[[MassEntry], None] = lambda entry: None) -> None:
        self.mass = 0
        self.waiting = 0
        self._journal = journal
        self._under_way: dict[str, Push] = {}
        self._arrived: OrderedDict[str, None] = OrderedDict()

    def begin(self, mass: int) -> None:
        """Begin with so much."""
        self._journal(MassEntry("begin", mass=mass))
        self.mass += mass

    def state(self) -> MassState:
        """Return the mass as it is now."""
        arrived = list(self._arrived)[-_KEPT_ARRIVALS:]
        return MassState(self.mass + self.waiting, tuple(self._under_way.values()), tuple(arrived))

    def restore(self, state: MassState) -> None:
        """Go on from a mass as it was; what was under way and is not known to have arrived stays so for good."""
        self.mass = state.held
        self._under_way = {push.transfer: push for push in state.under_way}
        self._arrived = OrderedDict.fromkeys(state.arrived)

    @property
    def under_way(self) -> list[Push]:
        """Pushes that are not confirmed; those to peers that are gone stay for good."""
        return list(self._under_way.values())

    def send(self, transfer: str, to: str) -> Push | None:
        """Put half of the mass under way; None if there is nothing to halve."""
        half = self.mass // 2
        if not half:
            return None
        self._journal(MassEntry("send", transfer, to, half))
        self.mass -= half
        push = self._under_way[transfer] = Push(transfer, to, half)
        return push

    def confirm(self, transfer: str) -> None:
        """Take note that a push arrived."""
        self._journal(MassEntry("confirm", transfer))
        self._under_way.pop(transfer, None)

    def take_back(self, transfer: str) -> None:
        """Regain the mass of a push that certainly did not arrive, and never will."""
        push = self._under_way.pop(transfer, None)
        if push is not None:
            self._journal(MassEntry("take back", transfer))
            self.mass += push.mass

    def has_arrived(self, transfer: str) -> bool:
        """Return whether a push has come before."""
        return transfer in self._arrived

    def arrive(self, transfer: str, mass: int) -> None:
        """Take note of a push that comes for the first time."""
        self._journal(MassEntry("arrive", transfer, mass=mass))
        self._arrived[transfer] = None
        if len(self._arrived) > _REMEMBERED:
            self._arrived.popitem(last=False)
        self.waiting += mass

    def absorb(self, mass: int) -> float:
        """Merge a model that arrived; returns how much it counts in what comes of that, as a ratio."""
        self.waiting -= mass
        self.mass += mass
        return mass / self.mass
