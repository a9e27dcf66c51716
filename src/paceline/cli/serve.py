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
from paceline.axon import trust
from paceline.axon.transports import Address
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.cli import doors, results
from paceline.errors import ConfigError
from paceline.fleets.joined import JoinedFleet
from paceline.fleets.live import Door


def serve(
    job: Annotated[Path | None, typer.Argument(help="The job file (TOML).")] = None,
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
    prepared = runs.prepare(config.load_job(job), folder) if job is not None else runs.reopen(resume)  # type: ignore[arg-type]
    given = {"host": host, "port": port, "token": token, "tls": tls or None, "insecure": insecure or None}
    kept = _Entrance.of(prepared.folder.path, {name: value for name, value in given.items() if value is not None})
    identity = doors.identity_of(kept.tls, prepared.folder.path / "tls" if kept.tls else None, cert, key)
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
    with results.watching(console) as watch:
        run = prepared.start(JoinedFleet(door, announce), [watch])
    results.show(run, console, as_json=as_json)


class _Entrance(msgspec.Struct, kw_only=True):
    """How learners get in; kept with the run, so that a resumed one is found where it was."""

    host: str = trust.LOOPBACK
    port: int = DEFAULT_PORT
    token: str | None = None
    tls: bool = False
    insecure: bool = False

    @classmethod
    def of(cls, folder: Path, given: dict[str, object]) -> _Entrance:
        """What is kept with the run, changed to what is given; who lets other machines in gets a token."""
        path = folder / "entrance.json"
        kept = msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else cls()
        for name, value in given.items():
            setattr(kept, name, value)
        if kept.token is None and not kept.insecure and not trust.is_loopback(kept.host):
            kept.token = secrets.token_urlsafe(16)
        return kept

    def keep(self, folder: Path, port: int) -> None:
        """Write it down for a later resume, with the port that was found; only the user may read it."""
        self.port = port
        path = folder / "entrance.json"
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(self))
