"""What admins call at a host: invite, list and revoke."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Annotated, ClassVar, Literal, Protocol

import msgspec
from msgspec import Meta

from paceline.axon.keys import short
from paceline.topologies.access.host import HostAccess
from paceline.topologies.access.roles import Right, Role

MAX_SECONDS = 10 * 365 * 86400.0
"""Longest that an invitation may last."""

_MAX_USES = 100_000
_MAX_NAME = 64


class InviteTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody is to be invited to.

    Attributes:
        name: the device that may join, or whom it is for; empty for anybody.
        uses: devices that may join by it (one, unless it says more), or jobs that may be submitted.
        seconds: how long it lasts.
    """

    role: Role
    seconds: Annotated[float, Meta(gt=0, le=MAX_SECONDS)]
    name: Annotated[str, Meta(max_length=_MAX_NAME)] = ""
    uses: Annotated[int, Meta(ge=1, le=_MAX_USES)] | None = None


class Invited(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation that was made: whoever has the token may use it.

    Attributes:
        uses: devices that may join by it, or jobs that may be submitted; None for any number.
        expires_at: in seconds since 1970.
        is_for_name: whether a device joins by it under its name only.
    """

    token: str
    name: str
    role: Role
    uses: int | None
    expires_at: float
    is_for_name: bool


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A device or an invitation of a host.

    Attributes:
        key: beginning of the device's key; empty for an invitation.
        since: when the device joined first, in seconds since 1970.
        seen_at: when it was last heard of.
        address: where it joined from last.
        by: token or invitation that it joined by first.
        expires_at: when the invitation expires.
        uses: how often it can be used; None for any number.
        used: how often it was.
    """

    name: str
    role: Role
    state: Literal["here", "away", "revoked", "open", "over"]
    key: str = ""
    since: float | None = None
    seen_at: float | None = None
    address: str = ""
    by: str = ""
    expires_at: float | None = None
    uses: int | None = None
    used: int = 0


class AdminService(ABC):
    """Calls of a host that need an admin's token."""

    noun: ClassVar[str] = "a host of a run"

    @abstractmethod
    async def invite(self, terms: InviteTerms) -> Invited:
        """Make an invitation; raises `ValueError` with a reason if it cannot be."""

    @abstractmethod
    async def devices(self) -> list[Listed]:
        """Return the devices that have joined, then the invitations."""

    @abstractmethod
    async def revoke(self, name: str) -> None:
        """End the session of a device, and refuse its key and name, and invitations of that name, from now on.

        Raises `LookupError` for a name that is not known.
        """

    @abstractmethod
    async def release(self, name: str) -> None:
        """End the session of a device, and let another one have its name; raises as `revoke` does."""


ADMIN_CALLS: dict[str, Right] = dict.fromkeys(sorted(AdminService.__abstractmethods__), "administer")
"""Right that each of them needs."""


class Membership(Protocol):
    """A host, as far as admins are concerned."""

    def connected(self) -> Collection[str]:
        """Return the names of devices that take part."""

    def dismiss(self, name: str, reason: str) -> None:
        """End the session of a device, if it has one."""


class Administration(AdminService):
    """Does what admins ask for."""

    def __init__(self, access: HostAccess, host: Membership) -> None:
        self._access = access
        self._host = host

    async def invite(self, terms: InviteTerms) -> Invited:
        role, name, uses = terms.role, terms.name, terms.uses
        if uses is not None and role not in ("learner", "submitter"):
            raise ValueError(f"uses are for devices that join and jobs that are submitted, not for the role {role}")
        if name and role == "learner" and uses not in (None, 1):
            raise ValueError(f"an invitation for the device {name[:80]!r} has one use, not {uses}")
        if uses is None and role == "learner":
            uses = 1
        token, made = self._access.invite(role, name, uses, terms.seconds)
        return Invited(
            token=token,
            name=made.name,
            role=role,
            uses=made.uses,
            expires_at=made.expires_at,
            is_for_name=made.is_for_name,
        )

    async def devices(self) -> list[Listed]:
        here, now = set(self._host.connected()), self._access.now()
        devices = [
            Listed(
                name=one.name,
                role="learner",
                state="revoked" if one.is_revoked else "here" if one.name in here else "away",
                key=short(one.key),
                since=one.since,
                seen_at=one.seen_at,
                address=one.address,
                by=one.by,
            )
            for one in self._access.devices()
        ]
        invitations = [
            Listed(
                name=one.name,
                role=one.role,
                state="revoked" if one.is_revoked else "over" if one.why_unusable(now) else "open",
                expires_at=one.expires_at,
                uses=one.uses,
                used=one.used,
            )
            for one in self._access.invitations()
        ]
        return [*devices, *invitations]

    async def revoke(self, name: str) -> None:
        for one in self._access.revoke(name):
            self._host.dismiss(one, "it was revoked")
        self._access.save()  # last: who is revoked is out, even if the disk is full

    async def release(self, name: str) -> None:
        self._access.release(name)
        self._host.dismiss(name, "its name was released")
        self._access.save()
