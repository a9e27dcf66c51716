"""``paceline serve``: orchestrate a run with devices that join over the network."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
from rich.console import Console

from paceline import files, topologies
from paceline.axon import ServerIdentity, access
from paceline.axon.client.remote import parse_address
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.cli import show_run
from paceline.cli.options import (
    NETWORK,
    Cert,
    DeviceName,
    Folder,
    Insecure,
    JobFile,
    Key,
    Overwrite,
    Tls,
    Token,
    flag,
    option,
)
from paceline.cli.tls import identity_of, public_url
from paceline.devices.machines import LiveMachine
from paceline.errors import ConfigError, DiskError
from paceline.fleets.joined import JoinedFleet
from paceline.fleets.live import ListenOptions
from paceline.learning.accelerators import find_accelerator
from paceline.report.folder import LISTEN
from paceline.run import PreparedRun, prepare
from paceline.topologies.base import COMMAND_WITHOUT_HOST
from paceline.topologies.job_files import load_job


def serve(
    job: JobFile,
    folder: Folder = None,
    overwrite: Overwrite = False,
    device: DeviceName = "cpu",
    as_json: Annotated[bool, flag("--json", "Print the address, then the result, as JSON.")] = False,
    host: Annotated[str | None, option("HOST", "Address to listen on (127.0.0.1).", NETWORK)] = None,
    port: Annotated[
        int | None, option("PORT", f"Port to listen on ({DEFAULT_PORT}); 0: any free one.", NETWORK)
    ] = None,
    token: Token = None,
    tls: Tls = False,
    cert: Cert = None,
    key: Key = None,
    insecure: Insecure = False,
) -> None:
    """Serve a job; prints the command with which devices join.

    Example: paceline serve job.toml --host 0.0.0.0 --tls
    """
    access.check_token(token)
    given: dict[str, object] = {
        "host": host,
        "port": port,
        "token": token,
        "tls": tls or None,
        "cert": str(cert.absolute()) if cert else None,
        "key": str(key.absolute()) if key else None,
        "insecure": insecure or None,
        "device": device,
    }
    kept = _KeptListenOptions.of(None, {name: value for name, value in given.items() if value is not None})
    serve_run(kept, lambda: _prepared(job, folder, overwrite), as_json=as_json)


def resume_served(folder: Path, reopen: Callable[[], PreparedRun], *, as_json: bool, save: Path | None) -> None:
    """Go on with a run that was served, at the same address and with the same token and certificate."""
    serve_run(_KeptListenOptions.of(folder, {}), reopen, as_json=as_json, save=save)


def serve_run(
    kept: _KeptListenOptions, make_ready: Callable[[], PreparedRun], *, as_json: bool, save: Path | None = None
) -> None:
    """Serve a run to devices that join over the network."""
    machine = functools.partial(LiveMachine, accelerator=find_accelerator(kept.device))
    identity = kept.identity()  # first: a wrong certificate should leave no folder behind
    prepared = make_ready()
    identity = identity or kept.identity(prepared.folder.path)
    console = Console(stderr=as_json)

    def announce(address: str) -> None:
        kept.keep(prepared.folder.path, parse_address(address).port)
        url = public_url(address, identity)
        if as_json:
            fingerprint = identity.fingerprint if identity else None
            where = {"url": url, "token": kept.token, "fingerprint": fingerprint, "run": str(prepared.folder.path)}
            print(json.dumps(where), flush=True)
        shown = f" --token {kept.token}" if kept.token else ""
        console.print(f"On each device, run\n  paceline join {url}{shown}", highlight=False, soft_wrap=True)

    listen = ListenOptions(host=kept.host, port=kept.port, token=kept.token, identity=identity, insecure=kept.insecure)
    fleet = JoinedFleet(listen, announce, make_machine=machine)
    show_run.start_and_show(prepared, fleet, as_json=as_json, save=save)


def _prepared(job: Path, folder: Path | None, overwrite: bool) -> PreparedRun:
    spec = load_job(job)
    if not topologies.of_job(spec).is_served:
        command = f"paceline {COMMAND_WITHOUT_HOST} {job}"
        raise ConfigError(f"{job}: this job has no server; start its first peer with {command}")
    return prepare(spec, folder, overwrite=overwrite)


class _KeptListenOptions(msgspec.Struct, kw_only=True):
    """Network settings of a run, kept in its folder, so that devices find a resumed run where it was."""

    host: str = access.LOOPBACK
    port: int = DEFAULT_PORT
    token: str | None = None
    tls: bool = False
    cert: str | None = None
    key: str | None = None
    insecure: bool = False
    device: str = "cpu"

    @classmethod
    def of(cls, folder: Path | None, given: dict[str, object]) -> _KeptListenOptions:
        """Read the settings kept in a folder, if any, and apply those given; makes up a token where one is needed."""
        path = folder / LISTEN if folder is not None else None
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=cls) if path is not None and path.exists() else cls()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}; without it, devices cannot find the run") from None
        for name, value in given.items():
            setattr(kept, name, value)
        if kept.token is None and not kept.insecure and not access.is_loopback(kept.host):
            kept.token = secrets.token_urlsafe(16)
        return kept

    def identity(self, folder: Path | None = None) -> ServerIdentity | None:
        """Return the certificate to present; a self-signed one is kept in the run's folder."""
        cert, key = (Path(path) if path else None for path in (self.cert, self.key))
        return identity_of(False, folder / "tls" if self.tls and folder else None, cert, key)

    def keep(self, folder: Path, port: int) -> None:
        """Save the settings for a later resume, with the port in use; only the user may read them."""
        self.port = port
        path = folder / LISTEN
        try:
            files.replace(path, msgspec.json.encode(self))
        except OSError as error:
            raise DiskError(f"{path} cannot be written: {files.reason_of(error)}") from error
