"""Options of the commands that run a device, and the device that they make."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from paceline import events
from paceline.axon import access
from paceline.axon.client.remote import parse_address
from paceline.axon.keys import DeviceKey, short
from paceline.axon.transports import CountedTransport, FaultyTransport, HttpTransport, Link, Transport
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.cli.options import (
    NETWORK,
    TRAINING,
    CaFile,
    ClientCa,
    Compiles,
    DeviceName,
    Insecure,
    Key,
    OwnCert,
    Save,
    Threads,
    Tls,
    Token,
    TokenFile,
    flag,
    option,
    read_token,
    takes,
)
from paceline.cli.tls import identity_of, own_certificate
from paceline.devices.energy import METERS, MakeMeter, PowerModel
from paceline.devices.machines import LiveMachine
from paceline.devices.states import DeviceState
from paceline.errors import ConfigError
from paceline.events import Emit, Event
from paceline.fleets.live import ListenOptions
from paceline.fleets.local import LocalDevice
from paceline.fleets.processes import EMULATION
from paceline.learning.accelerators import find_accelerator
from paceline.learning.memory import bounded_process, parse_bytes, usual_bound
from paceline.logs import is_json
from paceline.spelling import suggest
from paceline.topologies.base import Contact, DeviceOptions, Node, Topology
from paceline.topologies.consent import check_consent
from paceline.topologies.sessions import check_name

_KEY_VARIABLE = "PACELINE_DEVICE_KEY"
_EVERYWHERE = ("0.0.0.0", "::")
_REPLY_PART = 4  # of a device's memory that one reply may take: with what is made of it, it fits

Name: TypeAlias = Annotated[str | None, option("NAME", "Name of this device; reuse it to rejoin.", TRAINING)]
Data: TypeAlias = Annotated[str | None, option("PATH|I/N", "Own data, part I of N, or PATH:I/N.", TRAINING)]
ApplyView: TypeAlias = Annotated[bool, flag("--apply-view", "Apply the job's view to what --data names.", TRAINING)]
MaxShards: TypeAlias = Annotated[int | None, option("N", "Most shards to train in a round.", TRAINING)]
Price: TypeAlias = Annotated[float, option("NUMBER", "Price of a shard, for jobs with a budget.", TRAINING)]
Private: TypeAlias = Annotated[bool, flag("--private", "Refuse jobs that want to know what it can do.", TRAINING)]
Allow: TypeAlias = Annotated[list[str] | None, option("IMPORT", "Allow code of this import path or package.", TRAINING)]
MaxMemory: TypeAlias = Annotated[str | None, option("SIZE", "Most memory to take, as in 1.5G (half of it).", TRAINING)]
Store: TypeAlias = Annotated[str | None, option("URL", "Redis server where peers share figures.", TRAINING)]
Contention: TypeAlias = Annotated[Path | None, option("FILE", "Profile made by paceline contention.", TRAINING)]
Energy: TypeAlias = Annotated[str, option("HOW", "model, codecarbon, or busy_watts=4,…", TRAINING)]
Patience: TypeAlias = Annotated[float, option("SECONDS", "Time to retry an unreachable host (300).", TRAINING)]
StateFile: TypeAlias = Annotated[Path | None, option("FILE", "Keep a peer's state there, and go on from it.", TRAINING)]
Listen: TypeAlias = Annotated[str, option("HOST:PORT", "Address to listen on for peers (127.0.0.1:0).", NETWORK)]
Address: TypeAlias = Annotated[str | None, option("URL", "URL for peers, if not the --listen address.", NETWORK)]
BehindNat: TypeAlias = Annotated[bool, flag("--behind-nat", "Have calls come by way of another peer.", NETWORK)]
NoRelay: TypeAlias = Annotated[bool, flag("--no-relay", "Pass no calls on to peers behind NAT.", NETWORK)]
DeviceKeyFile: TypeAlias = Annotated[
    Path | None,
    option("FILE", "Key of this device, else the user's.", NETWORK, envvar=_KEY_VARIABLE, show_envvar=False),
]
# For trials and benchmarks, so not in --help: docs/reference/cli.md has them.
States: TypeAlias = Annotated[str | None, option("NAME=P,…", "Be busy at random: idle=0.6,training=0.4.", hidden=True)]
HideStates: TypeAlias = Annotated[
    bool, flag("--hide-states", "Keep the probabilities of --states secret.", hidden=True)
]
Emulate: TypeAlias = Annotated[str | None, option("KEY=N,…", "Be slower, such as slowdown=4,up_mbit=10.", hidden=True)]
EventsAsJson: TypeAlias = Annotated[bool, flag("--json", "Print events as lines of JSON.")]


_OPTIONS = {
    "max_shards": "--max-shards",
    "price": "--price",
    "data": "--data",
    "part": "--data I/N",
    "applies_view": "--apply-view",
    "store_url": "--store",
    "contention": "--contention",
    "state_file": "--state",
    "behind_nat": "--behind-nat",
    "passes_calls": "--no-relay",
}


@dataclass(frozen=True, kw_only=True)
class Device:
    """This device, as the options of a command describe it.

    Attributes:
        certificate: its own, as settings of `axon.connect`; empty if it has none.
        listen: where it listens for calls of others, if they call it.
        address: where others reach it, if not where it listens.
        max_memory_bytes: memory that it gives.
        save: file to save the final model in, too.
        as_json: whether events are printed as lines of JSON.
    """

    name: str
    key: DeviceKey
    token: str | None
    ca_file: str | None
    certificate: Mapping[str, Any]
    options: DeviceOptions
    machine: LiveMachine
    transport: CountedTransport
    listen: ListenOptions
    address: str | None
    max_memory_bytes: int
    save: Path | None
    as_json: bool

    def node(self, contacts: Sequence[Contact], emit: Emit, now: Callable[[], float], life: int) -> Node:
        """Make it a node that joins these contacts."""
        identity = self.listen.identity
        return Node(
            name=self.name,
            life=life,
            contacts=contacts,
            transport=self.transport,
            trust={"token": self.token, "ca_file": self.ca_file, **self.certificate},
            fingerprint=None if identity is None else identity.fingerprint,
            key=self.key,
            options=self.options,
            machine=self.machine,
            emit=emit,
            now=now,
        )

    def check_options(self, topology: Topology[Any]) -> None:
        """Raise `ConfigError` for an option that would do nothing in a job of this topology."""
        default, nouns = DeviceOptions(), f"a {topology.noun} of a {topology.name} job"
        for field, shown in _OPTIONS.items():
            if field not in topology.used_options and getattr(self.options, field) != getattr(default, field):
                raise ConfigError(f"{shown} does nothing for {nouns}: leave it out")
        listen = replace(self.listen, identity=None) if self.certificate else self.listen
        if topology.is_served and (self.address or listen != ListenOptions(port=0, token=self.token)):
            raise ConfigError(
                f"nobody calls {nouns}, so --listen, --address, --tls, --insecure and --client-ca do nothing: "
                "leave them out; an https:// address is all that TLS needs"
            )


def make_device(
    save: Save = None,
    as_json: EventsAsJson = False,
    name: Name = None,
    data: Data = None,
    apply_view: ApplyView = False,
    max_shards: MaxShards = None,
    max_memory: MaxMemory = None,
    price: Price = 0.0,
    private: Private = False,
    allow: Allow = None,
    store: Store = None,
    contention: Contention = None,
    state: StateFile = None,
    energy: Energy = "model",
    device: DeviceName = "cpu",
    compiles: Compiles = False,
    threads: Threads = None,
    patience: Patience = 300.0,
    token: Token = None,
    token_file: TokenFile = None,
    device_key: DeviceKeyFile = None,
    ca_file: CaFile = None,
    listen: Listen = f"{access.LOOPBACK}:0",
    address: Address = None,
    behind_nat: BehindNat = False,
    no_relay: NoRelay = False,
    tls: Tls = False,
    cert: OwnCert = None,
    key: Key = None,
    client_ca: ClientCa = None,
    insecure: Insecure = False,
    states: States = None,
    hide_states: HideStates = False,
    emulate: Emulate = None,
) -> Device:
    """Make a device of the options of a command; raises `ConfigError` for values that are not allowed."""
    token = read_token(token, token_file)
    name = name or f"device-{secrets.token_hex(3)}"  # a host's name may say what it is
    check_name(name)
    emulated = _parse_emulation(name, emulate)
    own, part = _parse_data(data)
    allowed = tuple(allow or ())
    max_memory_bytes = usual_bound() if max_memory is None else parse_bytes("--max-memory", max_memory)
    host, port = _parse_listen(listen)
    if host in _EVERYWHERE and address is None and not behind_nat:
        raise ConfigError(
            f"--listen is {listen!r}, all addresses of this machine; give the one that others use with --address"
        )
    if behind_nat and address is not None:
        raise ConfigError(
            f"--address is {address!r}, and --behind-nat says that nobody can call there: give one of them"
        )
    reached_at = None if address is None else parse_contact("--address", address).address
    return Device(
        name=name,
        key=DeviceKey.load_or_make(device_key or _default_key()),
        token=token,
        ca_file=ca_file,
        certificate=own_certificate(cert, key),
        options=DeviceOptions(
            max_shards=max_shards,
            price=price,
            data=own,
            part=part,
            applies_view=apply_view,
            allowed=allowed,
            patience_seconds=patience,
            store_url=store,
            contention=contention,
            state_file=state,
            is_private=private,
            behind_nat=behind_nat,
            passes_calls=not no_relay,
        ),
        machine=LiveMachine(
            slowdown=emulated.slowdown,
            allowed=allowed,
            states=_parse_states(states),
            are_states_known=not hide_states,
            make_meter=_parse_energy(energy),
            watch_points=_PointsBar(),
            threads=threads,
            accelerator=find_accelerator(device, compiles=compiles),
            max_memory_bytes=max_memory_bytes,
        ),
        transport=CountedTransport(_held_back(emulated, HttpTransport(max_memory_bytes // _REPLY_PART))),
        listen=ListenOptions(
            host=host,
            port=port,
            token=token,
            identity=identity_of(tls, None, cert, key, client_ca),
            insecure=insecure,
            hosts=() if reached_at is None else (parse_address(reached_at).host,),
        ),
        address=reached_at,
        max_memory_bytes=max_memory_bytes,
        save=save,
        as_json=as_json,
    )


def takes_device(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `device` of a command by the options of a device, whose process is kept in bounds."""

    @functools.wraps(command)
    def bounded(device: Device, **given: Any) -> None:
        is_cpu = device.machine.accelerator.is_cpu
        with bounded_process(device.max_memory_bytes) if is_cpu else contextlib.nullcontext():
            command(device=device, **given)

    return takes("device", make_device, bounded)


def parse_numbers(option: str, text: str | None, allowed: Mapping[str, object]) -> dict[str, float]:
    """Read numbers by name from an option like ``slowdown=4,latency_ms=20``; raises `ConfigError`."""
    numbers: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.partition("=")
        if name.strip() not in allowed:
            raise ConfigError(f"{option} {text!r}: {name.strip()!r} is unknown; {suggest(name.strip(), list(allowed))}")
        try:
            numbers[name.strip()] = float(value)
        except ValueError:
            raise ConfigError(f"{option} {text!r}, {part!r}: allowed: NAME=NUMBER, with commas between") from None
    return numbers


def parse_contact(option: str, text: str) -> Contact:
    """Read an address, with the fingerprint of its certificate behind a #; raises `ConfigError`."""
    url, _, fingerprint = text.partition("#")
    if not re.fullmatch(r"[!-~]{1,300}", url):
        raise ConfigError(f"{option} is {url[:300]!r}; an address is at most 300 ASCII characters, without spaces")
    try:
        parse_address(url, fingerprint or None)
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{option}: {error}") from None
    return Contact(url, fingerprint or None)


def ask_consent(device: Device, topology: Topology[Any], tables: Mapping[str, Any], address: str) -> list[str]:
    """Return lines that say what leaves the device, before anything does; raises `ConfigError` if it refuses to.

    Args:
        tables: what is known of the job.
        address: whom it goes to.
    """
    disclosures = topology.disclosures(tables, device.options)
    try:
        check_consent(disclosures, device.options.is_private)
    except ConfigError as error:
        raise ConfigError(f"{address}: {error}; nothing was sent. Without --private, this device would join") from None
    about = f"its name, {device.name}, its public key, {short(device.key.public)}…, and the version of Paceline"
    return [f"To {address}, this device will send", *(f"- {one}" for one in (about, *(d.what for d in disclosures)))]


def print_json(event: Event) -> None:
    """Print an event as a line of JSON on standard output."""
    sys.stdout.buffer.write(events.to_line(event))
    sys.stdout.flush()


def _default_key() -> Path:
    """Return the file that a device's key is made in where none is named: it stays on this machine."""
    folder = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(folder, "paceline", "device-key.pem")


def _parse_data(text: str | None) -> tuple[str | None, tuple[int, int] | None]:
    found = re.fullmatch(r"(?:(.+):)?(\d{1,9})/(\d{1,9})", text or "")
    if found is None:
        return text, None
    number, count = int(found[2]), int(found[3])
    if not 1 <= number <= count:
        raise ConfigError(f"--data is {text!r}; a part reads I/N, such as 1/8 for the first of eight")
    return found[1], (number, count)


def _parse_listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--listen is {text!r}; it reads HOST:PORT, such as 10.0.0.2:{DEFAULT_PORT}")
    return host.strip("[]"), int(port)


def _parse_states(text: str | None) -> list[DeviceState]:
    states = []
    for part in text.split(",") if text is not None else ():
        name, _, probability = part.partition("=")
        try:
            number = float(probability)
        except ValueError:
            raise ConfigError(f"--states {text!r}, {part!r}: allowed: NAME=PROBABILITY, with commas between") from None
        try:
            states.append(DeviceState(name=name.strip(), probability=number))
        except ValueError as error:
            raise ConfigError(f"--states {text!r}, {part!r}: {error}") from None
    return states


def _parse_energy(text: str) -> MakeMeter:
    first, _, rest = text.partition(",")
    kind, numbers = ("model", text) if "=" in first else (first, rest)
    if kind not in METERS:
        raise ConfigError(f"--energy is {text!r}; {suggest(kind, METERS)}")
    try:
        power = PowerModel(**parse_numbers("--energy", numbers, dict.fromkeys(PowerModel.__struct_fields__)))
    except ValueError as error:
        raise ConfigError(f"--energy {text!r}: {error}") from None
    return functools.partial(METERS[kind], power)


def _parse_emulation(name: str, text: str | None) -> LocalDevice:
    numbers: dict[str, Any] = {**parse_numbers("--emulate", text, EMULATION)}
    try:
        return LocalDevice(name=name, **numbers)
    except ValueError as error:
        raise ConfigError(f"--emulate {text!r}: {error}") from None


class _PointsBar:
    """Shows a bar on a terminal's standard error while aggregated points are made; it vanishes when they are."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def __call__(self, num_done: int, num_classes: int) -> None:
        if self._progress is None:
            columns = (TextColumn("aggregating points, class by class"), BarColumn(), TimeElapsedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True, quiet=is_json()), transient=True)
            self._progress.add_task("", total=num_classes)
            self._progress.start()
            atexit.register(self._progress.stop)  # if it is interrupted
        self._progress.update(self._progress.task_ids[0], completed=num_done)
        if num_done == num_classes:
            self._progress.stop()


def _held_back(device: LocalDevice, transport: Transport) -> Transport:
    """Return a transport, held back to the link of an emulated device, if that is any slower."""
    link = {name: getattr(device, name) for name in EMULATION if name != "slowdown"}
    if all(value == EMULATION[name] for name, value in link.items()):
        return transport
    return FaultyTransport(transport, Link.in_mbit(**link))
