"""``paceline gossip``: be a peer, or start a few of them on this machine."""

from __future__ import annotations

import contextlib
import math
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from paceline import config
from paceline.axon import trust
from paceline.axon.client.remote import parse_address
from paceline.axon.transports import Link
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.cli import doors, power, results
from paceline.cli.join import print_json
from paceline.errors import ConfigError
from paceline.fleets.live import Door
from paceline.fleets.local import LocalDevice
from paceline.fleets.local_peers import LocalPeers
from paceline.fleets.one_peer import OnePeer, Station
from paceline.fleets.peers import GossipLaunch
from paceline.learning import checkpoints, datasets
from paceline.learning.shards import Shard
from paceline.topologies.gossip import GossipPlan, Holding, Known, make_plan

_EVERYWHERE = ("0.0.0.0", "::")


def gossip(
    job: Annotated[Path, typer.Argument(help="The gossip job file (TOML); the same for all peers.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where others call this peer; port 0 picks a free one.")
    ] = f"{trust.LOOPBACK}:{DEFAULT_PORT}",
    peer: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Another peer to join, as it was told there; one or two are enough."),
    ] = None,
    part: Annotated[
        str | None, typer.Option(metavar="I/N", help="Train the I-th of N parts of the job's data.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Train this device's own data (.npz) instead.")] = None,
    name: Annotated[str | None, typer.Option(help="This peer's name; come back under it.")] = None,
    address: Annotated[
        str | None, typer.Option(metavar="URL", help="By which others reach this peer, if not where it listens.")
    ] = None,
    token: Annotated[str | None, typer.Option(envvar="PACELINE_TOKEN", help="What all peers show each other.")] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt, with a self-made certificate.")] = False,
    cert: Annotated[Path | None, typer.Option(help="Encrypt, with this certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key (PEM).")] = None,
    ca_file: Annotated[str | None, typer.Option(help="Authorities that signed the others' certificates.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Let other machines in without a token.")] = False,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Share figures in this Redis (redis://…), not by gossip alone.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="What paceline profile found of this device, to predict its speed by.")
    ] = None,
    slowdown: Annotated[float, typer.Option(help="Train so many times slower than this device can.")] = 1.0,
    down_mbit: Annotated[float, typer.Option(help="Download at most so many Mbit/s.")] = math.inf,
    up_mbit: Annotated[float, typer.Option(help="Upload at most so many Mbit/s.")] = math.inf,
    latency_ms: Annotated[float, typer.Option(help="Add so many milliseconds to each call, each way.")] = 0.0,
    energy: power.Energy = "model",
    busy_watts: power.BusyWatts = power.DEFAULT.busy_watts,
    idle_watts: power.IdleWatts = power.DEFAULT.idle_watts,
    joules_per_byte: power.JoulesPerByte = power.DEFAULT.joules_per_byte,
    local: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Start N peers on this machine instead of one.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="A new folder for the run; by default in runs/.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the final model there (.safetensors).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Tell what happens as lines of JSON.")] = False,
) -> None:
    """Train without a server: take part as a peer, or start a few peers on this machine.

    Example: paceline gossip job.toml --listen 10.0.0.3:7223 --peer http://10.0.0.2:7223 --part 2/8 --token S3cret
    """
    settings = config.load_gossip(job)
    draws = power.parse_power(busy_watts, idle_watts, joules_per_byte)
    make_meter = power.meter_maker(energy, draws)
    if local is not None:
        alone = {"peer": peer, "part": part, "data": data, "name": name, "address": address, "profile": profile}
        secured = {"tls": tls, "cert": cert, "key": key, "ca-file": ca_file}
        _refuse_with_local({**alone, **secured, "energy": energy != "model"})  # each would count the whole machine
        devices = [LocalDevice(name=f"peer-{number}", power=draws) for number in range(1, local + 1)]
        results.play_gossip(settings, LocalPeers(devices, store_url=store), folder, as_json=as_json, save=save)
        return
    if not 1 <= slowdown < math.inf:
        raise ConfigError(f"--slowdown is {slowdown:g}; it must be at least 1")
    trust.check_token(token)
    hold = _holder(part, data)
    host, port = _parse_listen(listen)
    if host in _EVERYWHERE and address is None:
        raise ConfigError(f"--listen is {listen!r}, all addresses of this machine; tell one for others by --address")
    link = Link.in_mbit(down_mbit=down_mbit, up_mbit=up_mbit, latency_ms=latency_ms)
    station = Station(
        name=name or f"peer-{secrets.token_hex(3)}",
        door=Door(
            host=host, port=port, token=token, identity=doors.identity_of(tls, None, cert, key), insecure=insecure
        ),
        known=[parse_peer("--peer", url) for url in peer or ()],
        address=None if address is None else parse_peer("--address", address).address,
        ca_file=ca_file,
        link=link if link != Link() else None,
        slowdown=slowdown,
        store_url=store,
        profile=profile,
        make_meter=make_meter,
    )

    if as_json and folder is None:
        plan = make_plan(settings)
        concluded = OnePeer(station, hold).run(GossipLaunch(plan=plan, emit=print_json))
        if save is not None:
            checkpoints.write(save, plan.state(concluded.parameters))
        return
    console = Console(stderr=as_json)

    def announce(url: str) -> None:
        shown = "" if token is None else " --token …"
        console.print(
            f"On another device, run\n  paceline gossip {job.name} --peer {url}{shown}", highlight=False, soft_wrap=True
        )

    with _points_bar() as watch:
        fleet = OnePeer(station, hold, announce, watch)
        results.play_gossip(settings, fleet, folder, as_json=as_json, save=save)


@contextlib.contextmanager
def _points_bar() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal's standard error while aggregated points are made; it vanishes when they are."""
    columns = (TextColumn("aggregating points, class by class"), BarColumn(), TimeElapsedColumn())
    with contextlib.ExitStack() as stack:
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        bar = progress.add_task("", total=None, start=False)

        def watch(num_done: int, num_classes: int) -> None:
            if not progress.live.is_started:
                stack.enter_context(progress)
                progress.start_task(bar)
            progress.update(bar, completed=num_done, total=num_classes)
            if num_done == num_classes:
                progress.stop()

        yield watch


def _refuse_with_local(given: Mapping[str, object]) -> None:
    refused = [f"--{option}" for option, value in given.items() if value]
    if refused:
        raise ConfigError(f"--local starts peers that know each other on this machine: leave out {', '.join(refused)}")


def _holder(part: str | None, data: Path | None) -> Callable[[GossipPlan], Holding]:
    """Tells which data this peer has, when the job's are loaded; raises `ConfigError` for what cannot be."""
    if (part is None) == (data is None):
        raise ConfigError("say which data this peer has: --part I/N of the job's, or --data FILE.npz of its own")
    if data is not None:
        own = Shard(*datasets.load_local(data))
        return lambda plan: plan.own(own)
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", part or "")
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise ConfigError(f"--part is {part!r}; it reads I/N, such as 1/8 for the first of eight")
    return lambda plan: plan.holdings(count)[number - 1]


def _parse_listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--listen is {text!r}; it reads HOST:PORT, such as 10.0.0.2:{DEFAULT_PORT}")
    return host.strip("[]"), int(port)


def parse_peer(option: str, text: str) -> Known:
    """A peer as it was told: its address, and the fingerprint of its certificate behind a #; raises `ConfigError`."""
    url, _, fingerprint = text.partition("#")
    if not re.fullmatch(r"[!-~]{1,300}", url):
        raise ConfigError(f"{option} is {url[:300]!r}; an address is at most 300 ASCII characters, without spaces")
    try:
        parse_address(url, fingerprint or None)
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{option}: {error}") from None
    return Known(url, fingerprint or None)
