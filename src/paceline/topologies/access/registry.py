"""The devices and invitations of a run, kept in a file of its folder that is whole at any time."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from pathlib import Path

import msgspec

from paceline import files
from paceline.errors import ConfigError
from paceline.topologies.access.roles import Role

FILE = "devices.json"
MAX_INVITATIONS = 10_000
"""Most invitations that a host keeps."""

_PAUSE_SECONDS = 0.1  # in which joins are saved together
_PAUSE_SHARE = 20  # times as long as saving took: a large file must not keep a host busy
_log = logging.getLogger(__name__)


class DeviceRecord(msgspec.Struct, kw_only=True):
    """A device that has joined.

    Attributes:
        key: public key that its name is bound to.
        since: when it joined first, in seconds since 1970; likewise `seen_at`, when it was last heard of.
        address: where it joined from last.
        by: invitation or token that it joined by first.
    """

    name: str
    key: str
    since: float
    seen_at: float
    address: str
    by: str
    is_revoked: bool = False


class Invitation(msgspec.Struct, kw_only=True):
    """What somebody may do by a token; the token itself is not kept.

    Attributes:
        name: whom it is for.
        digest: SHA-256 of the token.
        is_for_name: whether a device joins by it under this name only.
        uses: devices that may join by it, or jobs that may be submitted; None for any number.
        expires_at: in seconds since 1970.
    """

    name: str
    digest: str
    role: Role
    expires_at: float
    is_for_name: bool = False
    uses: int | None = None
    used: int = 0
    is_revoked: bool = False

    def why_over(self, now: float) -> str:
        """Return why it holds no longer; empty if it does."""
        if self.is_revoked:
            return f"the invitation for {self.name!r} was revoked"
        if now >= self.expires_at:
            moment = time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.expires_at))
            return f"the invitation for {self.name!r} expired at {moment} UTC; ask for another"
        return ""

    def why_unusable(self, now: float) -> str:
        """Return why no further device can join by it, or no further job be submitted; empty if one can."""
        if self.uses is not None and self.used >= self.uses:
            return f"the invitation for {self.name!r} is used up, {self.used} of {self.uses}; ask for another"
        return self.why_over(now)


class _Kept(msgspec.Struct):
    devices: list[DeviceRecord] = []
    invitations: list[Invitation] = []


class Registry:
    """Devices by name, and invitations by the digest of their token.

    Args:
        folder: where they are kept; None to forget them with the process.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = None if folder is None else folder / FILE
        kept = _read(self._path) if self._path is not None and self._path.exists() else _Kept()
        self.devices = {device.name: device for device in kept.devices}
        self.invitations = {invitation.digest: invitation for invitation in kept.invitations}
        self._saving: asyncio.TimerHandle | None = None
        self._pause_seconds = _PAUSE_SECONDS

    def is_revoked(self, key: str) -> bool:
        """Return whether a key belongs to a device that was revoked."""
        return any(device.is_revoked for device in self.devices.values() if device.key == key)

    def invitation_of(self, token: str) -> Invitation | None:
        """Return what a token stands for."""
        return self.invitations.get(digest_of(token))

    def invite(self, invitation: Invitation, now: float) -> None:
        """Keep an invitation; raises `ValueError` if there are too many, or it cannot be saved."""
        if len(self.invitations) >= MAX_INVITATIONS:
            unused = [one.digest for one in self.invitations.values() if not one.used and one.why_over(now)]
            for digest in unused:
                del self.invitations[digest]
        if len(self.invitations) >= MAX_INVITATIONS:
            raise ValueError(f"this host keeps {MAX_INVITATIONS} invitations, and can keep no other")
        self.invitations[invitation.digest] = invitation
        try:
            self.save()
        except ValueError:
            del self.invitations[invitation.digest]
            raise

    def save_soon(self) -> None:
        """Save in a moment, together with what else changes by then."""
        if self._path is not None and self._saving is None:
            self._saving = asyncio.get_running_loop().call_later(self._pause_seconds, self._try_to_save)

    def save(self) -> None:
        """Save now; raises `ValueError` if that is not possible."""
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None
        if self._path is None:
            return
        start = time.monotonic()
        kept = _Kept(list(self.devices.values()), list(self.invitations.values()))
        try:
            files.replace(self._path, msgspec.json.encode(kept))
        except OSError as error:
            raise ValueError(f"{self._path} cannot be written: {files.reason_of(error)}") from error
        finally:
            self._pause_seconds = max(_PAUSE_SECONDS, _PAUSE_SHARE * (time.monotonic() - start))

    def _try_to_save(self) -> None:
        self._saving = None
        try:
            self.save()
        except ValueError as error:
            _log.error("%s; it is tried again with the next device that joins", error)

    def close(self) -> None:
        """Save what is not saved yet."""
        if self._saving is not None:
            self._saving.cancel()
            self._try_to_save()


def digest_of(token: str) -> str:
    """Return what is kept of a token: it is random and long, so its SHA-256 gives nothing away."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def new_token() -> str:
    """Make a token that nobody can guess."""
    return secrets.token_urlsafe(16)


def _read(path: Path) -> _Kept:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; without it, names would be anybody's again") from None
