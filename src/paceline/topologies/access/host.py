"""Access to a host: what each token is for, which device a name belongs to, and who was let in or refused."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from paceline.axon import access
from paceline.axon.access import check_token, refuse_web_page, wrong_token
from paceline.axon.keys import short
from paceline.axon.messages import Reply, Request
from paceline.topologies.access.audit import AuditLog, What
from paceline.topologies.access.proofs import HTTP, HTTPS, Challenges, Proof, is_proven
from paceline.topologies.access.registry import DeviceRecord, Invitation, Registry, digest_of, new_token
from paceline.topologies.access.roles import OPEN, ROLES, Right, Role, wrong_role

_CALLS = "/rpc/"


class Grant(NamedTuple):
    """What somebody may do: everybody, whoever has a token that was given at the start, or an invitation."""

    name: str
    role: Role | None
    invitation: Invitation | None = None

    def may(self, right: Right) -> bool:
        """Return whether this is among the rights of its role."""
        return right in (OPEN if self.role is None else ROLES[self.role])


_EVERYBODY = Grant("nobody's token", None)


class HostAccess(access.Access):
    """Decides who may call a host, and keeps a record of it.

    A name belongs to the first device that joins under it, which proves by its key that it is the same one later.

    Args:
        tokens: the token of each role that has one from the start; without one for learners, callers need none.
        is_invite_only: whether devices join by invitation alone; then callers need a token even if none is given.
        fingerprint: fingerprint of the host's certificate; None without TLS.
        folder: where devices, invitations and the audit log are kept; None to forget them with the process.
        now: seconds since 1970.

    Attributes:
        audit: record of who was let in, refused, and so on.
    """

    def __init__(
        self,
        tokens: Mapping[Role, str | None],
        *,
        is_invite_only: bool = False,
        fingerprint: str | None = None,
        folder: Path | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        for token in tokens.values():
            check_token(token)
        self.is_open = tokens.get("learner") is None and not is_invite_only
        self.audit = AuditLog(folder, now)
        self._grants = {
            digest_of(token): Grant(f"token of the role {role}", role) for role, token in tokens.items() if token
        }
        self._channels = (HTTP, HTTPS) if fingerprint is None else (fingerprint, HTTPS)
        self._registry = Registry(folder)
        self._challenges = Challenges()
        self._needs: Mapping[str, Right] = {}
        self.now = now

    def protect(self, needs: Mapping[str, Right]) -> None:
        """Set the right that each function needs; one that is not listed needs a known token only."""
        self._needs = needs

    def close(self) -> None:
        """Save what is not saved yet."""
        self._registry.close()
        self.audit.close()

    # Requests.

    def refuse(self, head: Request) -> Reply | None:
        needed = self._needs.get(head.path.removeprefix(_CALLS))
        return self._recorded(head, refuse_web_page(head.headers) or self._refuse(head, needed))

    def refuse_viewer(self, head: Request) -> Reply | None:
        """Look at the head of a request for the page of the run; a reply returned here refuses it."""
        return self._recorded(head, self._refuse(head, "view"))

    def _recorded(self, head: Request, refusal: Reply | None) -> Reply | None:
        if refusal is not None:
            self.audit.record_refused(head, refusal)
        return refusal

    def _refuse(self, head: Request, needed: Right | None) -> Reply | None:
        grant = self._grant_of(access.Caller.of(head).token)
        if grant is None:
            return wrong_token()
        if needed is not None and not grant.may(needed):
            return Reply.refusal(403, wrong_role(grant.role, needed))
        invitation, now = grant.invitation, self.now()
        if invitation is None or (needed in (None, "join") and grant.may("join")):
            return None  # whether it lets a device in, or back in, follows from its key
        why = invitation.why_unusable(now) if needed == "submit" else invitation.why_over(now)
        return Reply.refusal(403, why) if why else None

    def _grant_of(self, token: str) -> Grant | None:
        grant = self._grants.get(digest_of(token))
        if grant is not None:
            return grant
        invitation = self._registry.invitation_of(token)
        if invitation is not None:
            return Grant(invitation.name, invitation.role, invitation)
        return _EVERYBODY if self.is_open else None

    @property
    def _caller(self) -> tuple[str, Grant]:
        """Address and grant of whose call is being answered."""
        address, token = access.caller.get()
        return address, self._grant_of(token) or _EVERYBODY

    # Devices.

    def challenge(self) -> str:
        """Return what a device has to sign to join."""
        return self._challenges.make()

    def enrol(self, name: str, proof: Proof | None, *, takes_over: bool) -> None:
        """Let a device in under a name, which from now on belongs to its key.

        Raises `ValueError` with the reason if it may not, and `LookupError` if its proof is too old.

        Args:
            takes_over: whether the device is here already, and joins again.
        """
        address, grant = self._caller
        known = self._registry.devices.get(name)
        key = self._check(name, proof, known, grant)
        now = self.now()
        if known is None:
            if grant.invitation is not None:
                grant.invitation.used += 1
            known = DeviceRecord(name=name, key=key, since=now, seen_at=now, address=address, by=grant.name)
            self._registry.devices[name] = known
        known.seen_at, known.address = now, address
        self._registry.save_soon()
        self._record("takeover" if takes_over else "join", name, key)

    def _check(self, name: str, proof: Proof | None, known: DeviceRecord | None, grant: Grant) -> str:
        """Return the key of a device that may join; raises as `enrol` does."""
        if proof is None:
            raise ValueError("a device joins with a key of its own, and this one showed none")
        self._challenges.use_up(proof.challenge)
        if not is_proven(proof, self._channels, name):
            raise ValueError(
                "the signature of its key is wrong, or was made for another address: devices join by the address that "
                "this host prints, https:// or http:// as it is there"
            )
        if self._registry.is_revoked(proof.key):
            raise ValueError(f"the device with the key {short(proof.key)} was revoked")
        if known is not None and known.is_revoked:
            raise ValueError("this name was revoked")
        if known is not None and known.key != proof.key:
            raise ValueError(
                f"this name belongs to another device, with the key {short(known.key)}, not {short(proof.key)}: join "
                "under another one (--name), or with the key of that device (--device-key)"
            )
        if known is None and grant.invitation is not None:
            self._check_invitation(grant.invitation, name)
        return proof.key

    def _check_invitation(self, invitation: Invitation, name: str) -> None:
        why = invitation.why_unusable(self.now())
        if not why and invitation.is_for_name and invitation.name != name:
            why = f"the invitation is for {invitation.name!r} (--name)"
        if why:
            raise ValueError(why)

    def record_refusal(self, name: str, key: str, reason: str) -> None:
        """Record that a device was not let in."""
        self._record("refusal", name, key, reason)

    def saw(self, name: str) -> None:
        """Take note that a device was heard of."""
        device = self._registry.devices.get(name)
        if device is not None:
            device.seen_at = self.now()

    # Jobs.

    def submitted(self, job: str) -> None:
        """Take note of a job that is submitted; raises `ValueError` if the invitation for it is used up meanwhile."""
        _, grant = self._caller
        if grant.invitation is not None:
            why = grant.invitation.why_unusable(self.now())
            if why:
                raise ValueError(why)
            grant.invitation.used += 1
            self._registry.save_soon()
        self._record("submission", job)

    # What admins do.

    def invite(self, role: Role, name: str, uses: int | None, seconds: float) -> tuple[str, Invitation]:
        """Make an invitation, and return the token with it; raises `ValueError` if it cannot be kept."""
        token, now = new_token(), self.now()
        invitation = Invitation(
            name=name or f"{role}-{secrets.token_hex(3)}",
            digest=digest_of(token),
            role=role,
            expires_at=now + seconds,
            is_for_name=bool(name) and role == "learner",
            uses=uses,
        )
        self._registry.invite(invitation, now)
        self._record("invitation", invitation.name, detail=f"{role}, {uses or 'any number of'} uses, {seconds:g} s")
        return token, invitation

    def devices(self) -> list[DeviceRecord]:
        """Return all devices that have joined."""
        return list(self._registry.devices.values())

    def invitations(self) -> list[Invitation]:
        """Return all invitations."""
        return list(self._registry.invitations.values())

    def revoke(self, name: str) -> list[str]:
        """Refuse a device, its key and its name, and invitations of that name, from now on.

        Returns the names of devices with that key; raises `LookupError` for a name that is not known.
        """
        registry = self._registry
        device = registry.devices.get(name)
        invitations = [one for one in registry.invitations.values() if one.name == name]
        if device is None and not invitations:
            raise LookupError(f"no device and no invitation here is called {name[:80]!r}")
        for invitation in invitations:
            invitation.is_revoked = True
        alike = [] if device is None else [one for one in registry.devices.values() if one.key == device.key]
        for one in alike:
            one.is_revoked = True
        self._record("revocation", name, "" if device is None else device.key)
        return [one.name for one in alike]

    def release(self, name: str) -> None:
        """Forget the key of a name, so that it belongs to the next device that joins under it.

        Raises `LookupError` for a name that is not known.
        """
        device = self._registry.devices.pop(name, None)
        if device is None:
            raise LookupError(f"no device here is called {name[:80]!r}")
        self._record("release", name, device.key)

    def save(self) -> None:
        """Save what has changed, so that it outlives the process; raises `ValueError` if that is not possible."""
        self._registry.save()

    def _record(self, what: What, name: str, key: str = "", detail: str = "") -> None:
        address, grant = self._caller
        self.audit.record(what, address=address, name=name, key=short(key), by=grant.name, detail=detail)
