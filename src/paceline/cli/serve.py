"""``paceline serve``: orchestrate a run with devices that join over the network."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from paceline import config, runs
from paceline.axon import ServerIdentity, trust
from paceline.axon.transports import Address
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.cli import doors, results
from paceline.errors import ConfigError, PacelineError
from paceline.fleets.joined import JoinedFleet
from paceline.fleets.live import Door
from paceline.report import LinePrinter
from paceline.runs import PreparedPool, PreparedRun


def serve(
    job: Annotated[Path | None, typer.Argument(help="The job file, or a pool file (TOML).")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with an interrupted run.")] = None,
    folder: Annotated[Path | None, typer.Option(help="A new folder for the run; by default in runs/.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; by default only this machine's.")] = None,
    port: Annotated[int | None, typer.Option(help=f"Port to listen on ({DEFAULT_PORT}); 0 picks a free one.")] = None,
    token: Annotated[str | None, typer.Option(envvar="PACELINE_TOKEN", help="What learners must show.")] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt, with a self-made certificate.")] = False,
    cert: Annotated[Path | None, typer.Option(help="Encrypt, with this certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key (PEM).")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Let other machines in without a token.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Tell the address, then the result, as JSON.")] = False,
) -> None:
    """Orchestrate a run: print the line that a device runs to join, then play the job's rounds with whoever does.

    Example: paceline serve job.toml --host 0.0.0.0 --tls
    """
    if (job is None) == (resume is None):
        raise ConfigError("give a job file, or --resume with the folder of a run")
    trust.check_token(token)
    given: dict[str, object] = {
        "host": host,
        "port": port,
        "token": token,
        "tls": tls or None,
        "cert": str(cert.absolute()) if cert else None,
        "key": str(key.absolute()) if key else None,
        "insecure": insecure or None,
    }
    kept = _Entrance.of(resume, {name: value for name, value in given.items() if value is not None})
    prepared = _prepared(job, resume, folder)
    identity = kept.identity(prepared.folder.path)
    console = Console(stderr=as_json)

    def announce(address: Address) -> None:
        kept.keep(prepared.folder.path, address.port)
        url, fingerprint = doors.public_url(address), identity.fingerprint if identity else None
        if as_json:
            told = {"url": url, "token": kept.token, "fingerprint": fingerprint, "run": str(prepared.folder.path)}
            print(json.dumps(told), flush=True)
        shown = "".join(
            f" --{name} {value}" for name, value in (("token", kept.token), ("fingerprint", fingerprint)) if value
        )
        console.print(f"On each device, run\n  paceline join {url}{shown}", highlight=False, soft_wrap=True)

    door = Door(host=kept.host, port=kept.port, token=kept.token, identity=identity, insecure=kept.insecure)
    fleet = JoinedFleet(door, announce)
    if isinstance(prepared, PreparedPool):
        results.show_pool(
            prepared.start(fleet, [LinePrinter(console, prepared.folder.reporting.progress()).feed]),
            console,
            as_json=as_json,
        )
        return
    with results.watching(console, prepared.folder.reporting) as watch:
        run = prepared.start(fleet, [watch])
    results.show(run, console, as_json=as_json)


def _prepared(job: Path | None, resume: Path | None, folder: Path | None) -> PreparedRun | PreparedPool:
    if resume is not None:
        return runs.reopen(resume)
    assert job is not None
    if config.is_pool(job):
        return runs.prepare_pool(*config.load_pool(job), folder)
    return runs.prepare(config.load_job(job), folder)


class _Entrance(msgspec.Struct, kw_only=True):
    """How learners get in; kept with the run, so that a resumed one is found where it was."""

    host: str = trust.LOOPBACK
    port: int = DEFAULT_PORT
    token: str | None = None
    tls: bool = False
    cert: str | None = None
    key: str | None = None
    insecure: bool = False

    @classmethod
    def of(cls, folder: Path | None, given: dict[str, object]) -> _Entrance:
        """What is kept with a run, if there is one, changed to what is given; others are let in with a token only."""
        path = folder / "entrance.json" if folder is not None else None
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=cls) if path is not None and path.exists() else cls()
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{path} cannot be read: {error}; without it, learners will not find the run") from None
        for name, value in given.items():
            setattr(kept, name, value)
        if kept.token is None and not kept.insecure and not trust.is_loopback(kept.host):
            kept.token = secrets.token_urlsafe(16)
        return kept

    def identity(self, folder: Path) -> ServerIdentity | None:
        """The certificate to show; one that is self-made lies with the run."""
        cert, key = (Path(path) if path else None for path in (self.cert, self.key))
        return doors.identity_of(self.tls, folder / "tls" if self.tls else None, cert, key)

    def keep(self, folder: Path, port: int) -> None:
        """Write it down for a later resume, with the port that was found; only the user may read it."""
        self.port = port
        path, partial = folder / "entrance.json", folder / "entrance.json.new"
        try:
            partial.touch(mode=0o600)
            partial.write_bytes(msgspec.json.encode(self))
            partial.replace(path)
        except OSError as error:
            raise PacelineError(f"{path} cannot be written: {error.strerror}") from error
