"""Where a run is served: the network settings that its folder keeps, and a host to be asked as an admin."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from paceline import axon, files
from paceline.axon import ServerIdentity, access
from paceline.axon.transports.base import DEFAULT_PORT, Address
from paceline.cli.calling import Caller
from paceline.cli.devices import parse_contact
from paceline.cli.tls import identity_of, public_url
from paceline.errors import ConfigError, DiskError
from paceline.fleets.live import ListenOptions
from paceline.logs import hide
from paceline.report.folder import LISTEN
from paceline.report.serving.site import PageSite
from paceline.topologies.access import AdminService
from paceline.topologies.access.registry import new_token
from paceline.topologies.base import Contact

_HERE = {"0.0.0.0": access.LOOPBACK, "::": "::1"}


class KeptListenOptions(msgspec.Struct, kw_only=True):
    """Network settings of a run, kept in its folder, so that devices find a resumed run where it was."""

    host: str = access.LOOPBACK
    port: int = DEFAULT_PORT
    token: str | None = None
    is_token_made_up: bool = False
    submit_token: str | None = None
    admin_token: str | None = None
    is_invite_only: bool = False
    tls: bool = False
    cert: str | None = None
    key: str | None = None
    client_ca: str | None = None
    insecure: bool = False
    hosts: list[str] = msgspec.field(default_factory=list)
    device: str = "cpu"

    @classmethod
    def of(cls, folder: Path | None, given: dict[str, object]) -> KeptListenOptions:
        """Read the settings kept in a folder, if any, and apply those given; makes up tokens where they are needed."""
        path = folder / LISTEN if folder is not None else None
        kept = cls._read(path) if path is not None and path.exists() else cls()
        for name, value in given.items():
            setattr(kept, name, value)
        if "token" in given:
            kept.is_token_made_up = False
        if kept.is_invite_only and kept.token is not None:
            raise ConfigError("--invite-only lets no device in by a token that all share: leave --token out")
        if kept.token is None and not (kept.insecure or kept.is_invite_only or access.is_loopback(kept.host)):
            kept.token, kept.is_token_made_up = new_token(), True
        if kept.admin_token is None:
            kept.admin_token = new_token()
        for token in (kept.token, kept.submit_token, kept.admin_token):
            hide(token)
        return kept

    @classmethod
    def _read(cls, path: Path) -> KeptListenOptions:
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}; without it, devices cannot find the run") from None

    def let_submit(self) -> None:
        """Make up a token to submit jobs with, unless none is needed or there is one."""
        if self.submit_token is None and (self.token is not None or self.is_invite_only):
            self.submit_token = new_token()
            hide(self.submit_token)

    def identity(self, folder: Path | None = None) -> ServerIdentity | None:
        """Return the certificate to present; a self-signed one is kept in the run's folder."""
        cert, key, client_ca = (Path(path) if path else None for path in (self.cert, self.key, self.client_ca))
        if folder is None:  # a self-signed one comes later, into the folder; here, only to try the other files
            found = identity_of(self.tls and client_ca is not None, None, cert, key, client_ca)
            return found if cert is not None else None
        return identity_of(False, folder / "tls" if self.tls else None, cert, key, client_ca)

    def options(self, identity: ServerIdentity | None) -> ListenOptions:
        """Return the settings as a fleet takes them."""
        names = ("host", "port", "token", "submit_token", "admin_token", "is_invite_only", "insecure")
        settings = {name: getattr(self, name) for name in names}
        return with_page(ListenOptions(identity=identity, hosts=tuple(self.hosts), **settings))

    def keep(self, folder: Path, port: int) -> None:
        """Save the settings for a later resume, with the port in use; only the user may read them."""
        self.port = port
        path = folder / LISTEN
        try:
            files.replace(path, msgspec.json.encode(self))
        except OSError as error:
            raise DiskError(f"{path} cannot be written: {files.reason_of(error)}") from error


def with_page(listen: ListenOptions) -> ListenOptions:
    """Have browsers that open the address get the page of the run."""
    is_encrypted = listen.identity is not None
    make_page = functools.partial(PageSite, host=listen.host, hosts=listen.hosts, is_encrypted=is_encrypted)
    return replace(listen, make_sites=(make_page,))


class AdminHost(NamedTuple):
    """A host to be asked as an admin, and the address by which others reach it."""

    remote: axon.Remote
    url: str


def find_host(target: str, caller: Caller) -> AdminHost:
    """Return the host at an address, or that of a run that this machine serves; raises `ConfigError`.

    Args:
        target: a URL, or the folder of a run, which has the address and an admin's token.
    """
    if "://" in target:
        return AdminHost(caller.connect(*parse_contact("TARGET", target), interface=AdminService), target)
    folder = Path(target)
    if not (folder / LISTEN).exists():
        raise ConfigError(f"{target} is no address, such as https://10.0.0.2:7223#sha256:…, and no run that is served")
    kept = KeptListenOptions.of(folder, {})
    identity = kept.identity(folder)
    scheme = "http" if identity is None else "https"
    here = Address(_HERE.get(kept.host, kept.host), kept.port)
    contact = Contact(str(here).replace("http", scheme, 1), None if identity is None else identity.fingerprint)
    announced = str(Address(kept.host, kept.port)).replace("http", scheme, 1)
    admin = replace(caller, token=caller.token or kept.admin_token)
    return AdminHost(admin.connect(*contact, interface=AdminService), public_url(announced, identity))
