"""``paceline split``: be the trunk of a model that is spread over devices, or a source; or start all of them here."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline import config, runs
from paceline.axon import trust
from paceline.axon.transports import Address, CountedTransport
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.cli import doors, power, results
from paceline.cli.join import make_transport, print_json
from paceline.cli.lines import one_line
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.fleets.joined import JoinedFleet
from paceline.fleets.live import Door, run_live
from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.learning.engines import ThreadEngine
from paceline.topologies.events import PhaseStarted
from paceline.topologies.split import Source, SourceOptions, reach_trunk
from paceline.topologies.split.events import NodeSpent


def split(
    target: Annotated[str, typer.Argument(help="A split job file (TOML), to be its trunk; or a trunk's address.")],
    local: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Trunk: start N sources on this machine, too.")
    ] = None,
    host: Annotated[str, typer.Option(help="Trunk: address to listen on.")] = trust.LOOPBACK,
    port: Annotated[int, typer.Option(help="Trunk: port to listen on; 0 picks a free one.")] = DEFAULT_PORT,
    tls: Annotated[bool, typer.Option("--tls", help="Trunk: encrypt, with a self-made certificate.")] = False,
    cert: Annotated[Path | None, typer.Option(help="Trunk: encrypt, with this certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Trunk: the certificate's private key (PEM).")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Trunk: let others in without a token.")] = False,
    folder: Annotated[Path | None, typer.Option(help="Trunk: a new folder for the run; by default in runs/.")] = None,
    token: Annotated[str | None, typer.Option(envvar="PACELINE_TOKEN", help="What the trunk asks for.")] = None,
    fingerprint: Annotated[str | None, typer.Option(help="Source: of the trunk's self-made certificate.")] = None,
    ca_file: Annotated[str | None, typer.Option(help="Source: authorities that signed its certificate.")] = None,
    name: Annotated[str | None, typer.Option(help="Source: its name; come back under it.")] = None,
    data: Annotated[Path | None, typer.Option(help="Source: what it sees of the samples (.npz), as it is.")] = None,
    apply_view: Annotated[
        bool, typer.Option("--apply-view", help="Source: see --data in the way that the trunk says.")
    ] = False,
    allow_model: Annotated[
        list[str] | None, typer.Option(help="Source: import path or package that a model may be loaded from.")
    ] = None,
    slowdown: Annotated[float, typer.Option(help="Source: work so many times slower than it can.")] = 1.0,
    down_mbit: Annotated[float, typer.Option(help="Source: download at most so many Mbit/s.")] = math.inf,
    up_mbit: Annotated[float, typer.Option(help="Source: upload at most so many Mbit/s.")] = math.inf,
    latency_ms: Annotated[float, typer.Option(help="Source: add so many milliseconds to each call, each way.")] = 0.0,
    patience: Annotated[float, typer.Option(help="Source: seconds to try to reach a trunk that is gone.")] = 300.0,
    energy: power.Energy = "model",
    busy_watts: power.BusyWatts = power.DEFAULT.busy_watts,
    idle_watts: power.IdleWatts = power.DEFAULT.idle_watts,
    joules_per_byte: power.JoulesPerByte = power.DEFAULT.joules_per_byte,
    as_json: Annotated[bool, typer.Option("--json", help="Tell what happens, or came of it, as JSON.")] = False,
) -> None:
    """Spread one model over several devices: be its trunk, or a source of it, or start all of them on this machine.

    Example: paceline split job.toml --local 5

    A source: paceline split https://10.0.0.2:7223 --token S3cret --fingerprint sha256:… --name camera-1
    """
    trust.check_token(token)
    make_meter = power.meter_maker(energy, power.parse_power(busy_watts, idle_watts, joules_per_byte))
    if target.startswith(("http://", "https://")):
        transport = CountedTransport(make_transport(down_mbit, up_mbit, latency_ms))
        trusted = {"token": token, "fingerprint": fingerprint, "ca_file": ca_file}
        source = Source(
            reach_trunk(target, transport=transport, **trusted),
            transport,
            name or f"source-{secrets.token_hex(3)}",
            ThreadEngine(slowdown),
            make_meter,
            emit=print_json if as_json else _print,
            options=SourceOptions(
                data=data, is_viewed=apply_view, allowed=tuple(allow_model or ()), patience_seconds=patience
            ),
        )
        reason = run_live(_take_part(source))
        if not as_json:
            print(f"the run is over: {one_line(reason)}")
        return
    if local is not None:
        alone = {"name": name, "data": data, "tls": tls, "cert": cert, "key": key, "fingerprint": fingerprint}
        _refuse_with_local({**alone, "ca-file": ca_file, "host": host != trust.LOOPBACK})
    identity = doors.identity_of(tls, None, cert, key)  # first: what is wrong with it should leave no folder behind
    prepared = runs.prepare_split(config.load_split(Path(target)), folder)
    console = Console(stderr=as_json)
    if local is not None:
        devices = [LocalDevice(name=f"source-{number}") for number in range(1, local + 1)]
        results.show_split(prepared, LocalFleet(devices), console, make_meter, as_json=as_json)
        return
    if token is None and not insecure and not trust.is_loopback(host):
        token = secrets.token_urlsafe(16)

    def announce(address: Address) -> None:
        url, print_of = doors.public_url(address), identity.fingerprint if identity else None
        if as_json:
            told = {"url": url, "token": token, "fingerprint": print_of, "run": str(prepared.folder.path)}
            print(json.dumps(told), flush=True)
        shown = "".join(
            f" --{option} {value}" for option, value in (("token", token), ("fingerprint", print_of)) if value
        )
        console.print(f"On each source, run\n  paceline split {url}{shown}", highlight=False, soft_wrap=True)

    door = Door(host=host, port=port, token=token, identity=identity, insecure=insecure)
    results.show_split(prepared, JoinedFleet(door, announce), console, make_meter, as_json=as_json)


def _refuse_with_local(given: Mapping[str, object]) -> None:
    refused = [f"--{option}" for option, value in given.items() if value]
    if refused:
        raise ConfigError(
            f"--local starts sources that find their trunk on this machine: leave out {', '.join(refused)}"
        )


async def _take_part(source: Source) -> str:
    try:
        return await source.run()
    except asyncio.CancelledError:
        await source.leave()
        raise


def _print(event: Event) -> None:
    if isinstance(event, PhaseStarted) and (event.phase, event.round) == ("benchmark", 0):
        print("joining …", flush=True)
    if isinstance(event, NodeSpent):
        moved = f"sent {event.bytes_sent / 1e6:,.1f} MB, received {event.bytes_received / 1e6:,.1f} MB"
        worked = f"{event.seconds:.1f} s, of which {event.compute_seconds:.1f} at work"
        print(f"{f'epoch {event.epoch}' if event.epoch else 'in the end'}: {worked}; {moved}", flush=True)
