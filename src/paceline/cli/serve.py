"""``paceline serve``: orchestrate a run with devices that join over the network."""

from __future__ import annotations

import functools
import json
import secrets
from pathlib import Path
from typing import Annotated

import msgspec
import typer
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
    Key,
    Overwrite,
    Resume,
    Rounds,
    Tls,
    Token,
    check_rounds,
    flag,
    option,
)
from paceline.cli.tls import identity_of, public_url
from paceline.devices.machines import LiveMachine
from paceline.errors import ConfigError, DiskError
from paceline.fleets.joined import JoinedFleet
from paceline.fleets.live import ListenOptions
from paceline.learning.accelerators import find_accelerator
from paceline.run import PreparedRun, prepare, reopen
from paceline.topologies.base import COMMAND_WITHOUT_HOST
from paceline.topologies.job_files import load_job


def serve(
    job: Annotated[Path | None, typer.Argument(metavar="JOB", help="Job file (TOML).")] = None,
    resume: Resume = None,
    rounds: Rounds = None,
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
    if (job is None) == (resume is None):
        raise ConfigError("give either a job file, or --resume with the folder of a run")
    check_rounds(rounds, resume)
    access.check_token(token)
    machine = functools.partial(LiveMachine, accelerator=find_accelerator(device))
    given: dict[str, object] = {
        "host": host,
        "port": port,
        "token": token,
        "tls": tls or None,
        "cert": str(cert.absolute()) if cert else None,
        "key": str(key.absolute()) if key else None,
        "insecure": insecure or None,
    }
    kept = _KeptListenOptions.of(resume, {name: value for name, value in given.items() if value is not None})
    identity = kept.identity()  # first: a wrong certificate should leave no folder behind
    prepared = _prepared(job, resume, rounds, folder, overwrite)
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
    show_run.start_and_show(
        prepared, JoinedFleet(listen, announce, make_machine=machine), as_json=as_json, resume=["serve"]
    )


def _prepared(
    job: Path | None, resume: Path | None, rounds: int | None, folder: Path | None, overwrite: bool
) -> PreparedRun:
    if resume is not None:
        return reopen(resume, rounds)
    assert job is not None
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

    @classmethod
    def of(cls, folder: Path | None, given: dict[str, object]) -> _KeptListenOptions:
        """Read the settings kept in a folder, if any, and apply those given; makes up a token where one is needed."""
        path = folder / "listen.json" if folder is not None else None
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
        path = folder / "listen.json"
        try:
            files.replace(path, msgspec.json.encode(self))
        except OSError as error:
            raise DiskError(f"{path} cannot be written: {files.reason_of(error)}") from error
