"""The connections of a listener: who is a stranger, who is idle, and who has to go when there is no room for all."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

_STRANGERS_SHARE = 8  # one part of so many is left to those who have just come
_MOMENT_SECONDS = 1.0  # for an honest newcomer to send its first request

MAX_LINGERING = 32
"""Refused connections that are read on for a moment, so that their clients get to see why."""


class Guest(Protocol):
    """A connection, from before its TLS handshake until it is closed."""

    network: str
    """Network that it comes from; see `network_of`."""

    accepted_at: float
    """Loop time at which it was accepted."""

    def abort(self) -> None:
        """Close at once."""


G = TypeVar("G", bound=Guest)


class Crowd(Generic[G]):
    """Guests by what is known of them.

    A stranger has sent no request yet that was let in; the others are known, and idle between requests. Known ones
    that are busy are never sent away.
    """

    def __init__(self) -> None:
        self.everyone: set[G] = set()
        self._strangers: dict[str, OrderedDict[G, None]] = {}  # by network; the oldest first
        self._idle: OrderedDict[G, None] = OrderedDict()  # the one that is idle longest first
        self._lingering: OrderedDict[G, None] = OrderedDict()
        self.num_strangers = 0

    def add(self, guest: G) -> None:
        """Take in a connection that was just accepted, as a stranger."""
        self.everyone.add(guest)
        self._strangers.setdefault(guest.network, OrderedDict())[guest] = None
        self.num_strangers += 1

    def remove(self, guest: G) -> None:
        """Forget a connection; does nothing the second time."""
        self._lingering.pop(guest, None)  # which may have been for one that was never taken in
        if guest in self.everyone:
            self.everyone.remove(guest)
            self._forget_stranger(guest)
            self._idle.pop(guest, None)

    def set_busy(self, guest: G) -> None:
        """Note that a request was let in: its sender is known from now on, and busy."""
        if guest in self._idle:
            del self._idle[guest]
        else:
            self._forget_stranger(guest)

    def set_idle(self, guest: G) -> None:
        """Note that a known one has had its answer."""
        if guest in self.everyone:
            self._idle[guest] = None

    def let_linger(self, guest: G) -> None:
        """Read on from one that was refused, taken in or not; the oldest of too many is closed."""
        self._lingering[guest] = None
        if len(self._lingering) > MAX_LINGERING:
            self._send_away(next(iter(self._lingering)))

    def make_room(self, now: float) -> bool:
        """Send one away so that another can come; False if all are busy.

        Strangers go first, from the network that has most of them, the oldest first; but a few are left the time
        to show who they are, and the known one that is idle longest goes instead.
        """
        oldest = self._first_to_go()
        idle = next(iter(self._idle), None)
        are_many = self.num_strangers * _STRANGERS_SHARE > len(self.everyone)
        if oldest is not None and (are_many or (idle is None and now - oldest.accepted_at > _MOMENT_SECONDS)):
            self._send_away(oldest)
        elif idle is not None:
            self._send_away(idle)
        else:
            return False
        return True

    def shed_strangers(self, count: int) -> None:
        """Send away so many strangers, if there are."""
        for _ in range(min(count, self.num_strangers)):
            stranger = self._first_to_go()
            assert stranger is not None
            self._send_away(stranger)

    def _first_to_go(self) -> G | None:
        """Return the oldest stranger of the network that has most of them."""
        if not self._strangers:
            return None
        most: OrderedDict[G, None] = max(self._strangers.values(), key=len)
        return next(iter(most))

    def _send_away(self, guest: G) -> None:
        self.remove(guest)
        guest.abort()

    def _forget_stranger(self, guest: G) -> None:
        strangers = self._strangers.get(guest.network)
        if strangers and guest in strangers:
            del strangers[guest]
            self.num_strangers -= 1
            if not strangers:
                del self._strangers[guest.network]


def network_of(host: str) -> str:
    """Return what one sender can be told by: an IPv4 address, or the 64 bits of an IPv6 one that a household has."""
    if ":" not in host:
        return host
    return str(ipaddress.IPv6Network((host.partition("%")[0], 64), strict=False).network_address)
