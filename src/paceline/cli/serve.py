"""``paceline serve``: orchestrate a run with devices that join over the network."""

from __future__ import annotations

import functools
import gc
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from rich.console import Console

from paceline import topologies
from paceline.axon import ServerIdentity
from paceline.axon.client.remote import parse_address
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.cli import show_run
from paceline.cli.listening import KeptListenOptions
from paceline.cli.options import (
    NETWORK,
    AllowHost,
    Cert,
    ClientCa,
    DeviceName,
    Folder,
    Insecure,
    JobFile,
    Key,
    Overwrite,
    PagePort,
    Tls,
    Token,
    TokenFile,
    Track,
    flag,
    option,
    read_token,
)
from paceline.cli.tls import page_url, public_url, warn_of_clear_token
from paceline.devices.machines import LiveMachine
from paceline.errors import ConfigError, NothingToResume
from paceline.fleets.joined import JoinedFleet
from paceline.learning.accelerators import find_accelerator
from paceline.logs import is_json, say
from paceline.report.folder import LISTEN
from paceline.report.trackers import PRINTING, Tracker, find_trackers
from paceline.run import PreparedRun, prepare, reopen
from paceline.topologies.base import COMMAND_WITHOUT_HOST
from paceline.topologies.job_files import load_job


def serve(
    job: JobFile,
    folder: Folder = None,
    overwrite: Overwrite = False,
    resume: Annotated[bool, flag("--resume", "Go on with the run in --folder, if there is one.")] = False,
    device: DeviceName = "cpu",
    page: PagePort = None,
    track: Track = None,
    as_json: Annotated[bool, flag("--json", "Print the address, then the result, as JSON.")] = False,
    host: Annotated[str | None, option("HOST", "Address to listen on (127.0.0.1).", NETWORK)] = None,
    port: Annotated[
        int | None, option("PORT", f"Port to listen on ({DEFAULT_PORT}); 0: any free one.", NETWORK)
    ] = None,
    token: Token = None,
    token_file: TokenFile = None,
    invite_only: Annotated[bool, flag("--invite-only", "Let no new device in without an invitation.", NETWORK)] = False,
    tls: Tls = False,
    cert: Cert = None,
    key: Key = None,
    client_ca: ClientCa = None,
    insecure: Insecure = False,
    allow_host: AllowHost = None,
) -> None:
    """Serve a job; prints the command with which devices join.

    Example: paceline serve job.toml --host 0.0.0.0 --tls
    """
    if resume and (folder is None or overwrite):
        raise ConfigError("--resume goes on with the run in --folder: name that, and leave --overwrite out")
    token = read_token(token, token_file)
    given: dict[str, object] = {
        "host": host,
        "port": port,
        "token": token,
        "is_invite_only": invite_only or None,
        "tls": tls or None,
        "cert": str(cert.absolute()) if cert else None,
        "key": str(key.absolute()) if key else None,
        "client_ca": str(client_ca.absolute()) if client_ca else None,
        "insecure": insecure or None,
        "hosts": allow_host,
        "device": device,
    }
    given = {name: value for name, value in given.items() if value is not None}
    trackers = find_trackers(track or ())
    if resume and folder is not None and folder.is_dir() and any(folder.iterdir()):
        _go_on(folder, given, as_json=as_json, page=page, trackers=trackers)
    else:
        kept = KeptListenOptions.of(None, given)
        serve_run(kept, lambda: _prepared(job, folder, overwrite), as_json=as_json, page=page, trackers=trackers)


def _go_on(
    folder: Path, given: dict[str, object], *, as_json: bool, page: int | None, trackers: Mapping[str, type[Tracker]]
) -> None:
    """Go on with a run; that it is over is no error, since whatever starts services does so after each boot."""
    try:
        serve_run(
            KeptListenOptions.of(folder, given), lambda: reopen(folder), as_json=as_json, page=page, trackers=trackers
        )
    except NothingToResume as error:
        say("over", str(error))


def resume_served(
    folder: Path,
    reopen: Callable[[], PreparedRun],
    *,
    as_json: bool,
    save: Path | None,
    page: int | None,
    trackers: Mapping[str, type[Tracker]],
) -> None:
    """Go on with a run that was served, at the same address and with the same token and certificate."""
    serve_run(KeptListenOptions.of(folder, {}), reopen, as_json=as_json, save=save, page=page, trackers=trackers)


def serve_run(
    kept: KeptListenOptions,
    make_ready: Callable[[], PreparedRun],
    *,
    as_json: bool,
    save: Path | None = None,
    page: int | None = None,
    trackers: Mapping[str, type[Tracker]] | None = None,
) -> None:
    """Serve a run to devices that join over the network."""
    machine = functools.partial(LiveMachine, accelerator=find_accelerator(kept.device))
    identity = kept.identity()  # first: a wrong certificate should leave no folder behind
    prepared = make_ready()
    identity = identity or kept.identity(prepared.folder.path)
    console = Console(stderr=as_json or PRINTING in (trackers or ()))

    if prepared.plan.job.nested:
        kept.let_submit()

    def announce(address: str) -> None:
        kept.keep(prepared.folder.path, parse_address(address).port)
        url = public_url(address, identity)
        warn_of_clear_token(url.partition("#")[0], kept.token)
        if as_json:
            print(json.dumps(_where(kept, url, identity, prepared.folder.path)), flush=True)
        if is_json():
            text = f"listening at {url}; tokens are in {prepared.folder.path / LISTEN}"
            say("listening", text, fields={"url": url, "run": str(prepared.folder.path)})
            return
        for line in _how_to_take_part(kept, url, prepared.folder.path):
            console.print(line, highlight=False, soft_wrap=True, markup=False)

    fleet = JoinedFleet(kept.options(identity), announce, make_machine=machine)
    gc.collect()
    gc.freeze()  # PyTorch alone is a hundred thousand objects; to look through them again holds up all who call
    show_run.start_and_show(prepared, fleet, as_json=as_json, save=save, page=page, trackers=trackers)


def _where(kept: KeptListenOptions, url: str, identity: ServerIdentity | None, folder: Path) -> dict[str, object]:
    fingerprint = identity.fingerprint if identity else None
    submitting = {"submit_token": kept.submit_token} if kept.submit_token else {}
    return {"url": url, "token": kept.token, **submitting, "fingerprint": fingerprint, "run": str(folder)}


def _how_to_take_part(kept: KeptListenOptions, url: str, folder: Path) -> list[str]:
    """Say how devices join, how jobs are submitted where that takes another token, and how people watch."""
    if kept.is_invite_only:
        joining = f"Invite each device, here, by\n  paceline invite {folder} --name NAME"
    else:
        shown = f" --token {kept.token if kept.is_token_made_up else '…'}" if kept.token else ""
        joining = f"On each device, run\n  paceline join {url}{shown}"
    submitting = f"To submit a job, run\n  paceline submit JOB --to {url} --token {kept.submit_token}"
    watching = f"To watch it in a browser, open {page_url(url)}"
    if kept.token or kept.is_invite_only:
        watching = f"To watch it in a browser, run\n  paceline invite {folder} --role viewer"
    return [joining, submitting, watching] if kept.submit_token else [joining, watching]


def _prepared(job: Path, folder: Path | None, overwrite: bool) -> PreparedRun:
    spec = load_job(job)
    if not topologies.of_job(spec).is_served:
        command = f"paceline {COMMAND_WITHOUT_HOST} {job}"
        raise ConfigError(f"{job}: this job has no server; start its first peer with {command}")
    return prepare(spec, folder, overwrite=overwrite)
