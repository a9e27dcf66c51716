"""Mass, the weights of push-sum gossip (GoSGD): whole numbers, so that nothing is lost or made by rounding.

A peer that pushes its model sends half of its mass along; the model that arrives counts by the mass that it brings.
Every push has a name. It is repeated until it is confirmed, and counts once, however often it arrives.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

FULL_MASS = 1 << 60
"""Mass of a peer that is there from the beginning."""

MAX_MASS = FULL_MASS << 12
"""Largest mass that is believed of a model: more than all peers together can have."""

_REMEMBERED = 4096  # pushes that a receiver knows again


class Push(NamedTuple):
    """A push under way: its name, to whom, and the mass in it."""

    transfer: str
    to: str
    mass: int


class MassAccount:
    """The mass of a peer's model, and what it has under way.

    Attributes:
        mass: mass of the model that the peer has.
        waiting: mass of models that arrived, and are not merged yet.
    """

    def __init__(self) -> None:
        self.mass = 0
        self.waiting = 0
        self._under_way: dict[str, Push] = {}
        self._arrived: OrderedDict[str, None] = OrderedDict()

    @property
    def under_way(self) -> list[Push]:
        """Pushes that are not confirmed; those to peers that are gone stay for good."""
        return list(self._under_way.values())

    def send(self, transfer: str, to: str) -> Push | None:
        """Put half of the mass under way; None if there is nothing to halve."""
        half = self.mass // 2
        if not half:
            return None
        self.mass -= half
        push = self._under_way[transfer] = Push(transfer, to, half)
        return push

    def confirm(self, transfer: str) -> None:
        """Take note that a push arrived."""
        self._under_way.pop(transfer, None)

    def take_back(self, transfer: str) -> None:
        """Regain the mass of a push that certainly did not arrive, and never will."""
        push = self._under_way.pop(transfer, None)
        if push is not None:
            self.mass += push.mass

    def has_arrived(self, transfer: str) -> bool:
        """Return whether a push has come before."""
        return transfer in self._arrived

    def arrive(self, transfer: str, mass: int) -> None:
        """Take note of a push that comes for the first time."""
        self._arrived[transfer] = None
        if len(self._arrived) > _REMEMBERED:
            self._arrived.popitem(last=False)
        self.waiting += mass

    def absorb(self, mass: int) -> float:
        """Merge a model that arrived; returns how much it counts in what comes of that, as a ratio."""
        self.waiting -= mass
        self.mass += mass
        return mass / self.mass
