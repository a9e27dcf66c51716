"""``paceline join``: be a learner."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import secrets
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from paceline import events
from paceline.axon.transports import CountedTransport, FaultyTransport, HttpTransport, Link, Transport
from paceline.cli import power
from paceline.cli.lines import one_line
from paceline.devices.activities import Activity, StressedActivity, Undisturbed
from paceline.devices.energy import MakeMeter, Meter
from paceline.devices.states import DeviceState
from paceline.devices.stressors import Fetch
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.fleets.live import run_live
from paceline.learning import datasets
from paceline.learning.tasks import Task
from paceline.learning.trainers import ThreadTrainer, Trainer
from paceline.learning.training import LocalModel
from paceline.monitor.wording import say_bytes, say_energy, say_known
from paceline.topologies.events import PhaseStarted
from paceline.topologies.parallel import CannotKeepUp, Learner, LearnerOptions, reach
from paceline.topologies.parallel.events import DeviceMeasured, RoundSpent


def join(
    url: Annotated[str, typer.Argument(help="The orchestrator's address, like https://10.0.0.2:7223.")],
    token: Annotated[str | None, typer.Option(envvar="PACELINE_TOKEN", help="What the orchestrator asks for.")] = None,
    fingerprint: Annotated[str | None, typer.Option(help="Of the orchestrator's self-made certificate.")] = None,
    ca_file: Annotated[str | None, typer.Option(help="Authorities that signed its certificate.")] = None,
    name: Annotated[str | None, typer.Option(help="This learner's name; come back under it.")] = None,
    max_shards: Annotated[int | None, typer.Option(help="Take at most so many shards a round.")] = None,
    price: Annotated[float, typer.Option(help="Ask for so much per shard, where work is paid for.")] = 0.0,
    states: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=P,…",
            help="Be busy besides with these probabilities, as a trial: idle=0.6,training=0.3,downloading=0.1.",
        ),
    ] = None,
    hide_states: Annotated[
        bool, typer.Option("--hide-states", help="Do not tell those probabilities; they are learned.")
    ] = False,
    data: Annotated[Path | None, typer.Option(help="This device's own data (.npz), for federated jobs.")] = None,
    allow_model: Annotated[
        list[str] | None, typer.Option(help="Import path or package that jobs may load a model from.")
    ] = None,
    slowdown: Annotated[float, typer.Option(help="Train so many times slower than this device can.")] = 1.0,
    down_mbit: Annotated[float, typer.Option(help="Download at most so many Mbit/s.")] = math.inf,
    up_mbit: Annotated[float, typer.Option(help="Upload at most so many Mbit/s.")] = math.inf,
    latency_ms: Annotated[float, typer.Option(help="Add so many milliseconds to each call, each way.")] = 0.0,
    energy: power.Energy = "model",
    busy_watts: power.BusyWatts = power.DEFAULT.busy_watts,
    idle_watts: power.IdleWatts = power.DEFAULT.idle_watts,
    joules_per_byte: power.JoulesPerByte = power.DEFAULT.joules_per_byte,
    patience: Annotated[float, typer.Option(help="Seconds to try to reach an orchestrator that is gone.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Tell what happens as lines of JSON.")] = False,
) -> None:
    """Take part in a run: measure this device, train what it can by each deadline, until the run is over.

    Example: paceline join https://10.0.0.2:7223 --token S3cret --fingerprint sha256:… --name pi4
    """
    if not 1 <= slowdown < math.inf:
        raise ConfigError(f"--slowdown is {slowdown:g}; it must be at least 1")
    own_data = datasets.load_local(data) if data is not None else None
    allowed = tuple(allow_model or ())

    occupations = _parse_states(states) if states is not None else ()

    def make_activity(fetch: Fetch) -> Activity:
        if not occupations:
            return Undisturbed()
        return StressedActivity(occupations, fetch, random.Random(), are_known=not hide_states)

    make_activity(_nothing)  # tells now what is wrong with the states

    def make_trainer(task: Task) -> Trainer:
        return ThreadTrainer(LocalModel(task, allowed), slowdown)

    transport = CountedTransport(make_transport(down_mbit, up_mbit, latency_ms))
    options = LearnerOptions(
        max_shards=max_shards, price=price, own_data=own_data, patience_seconds=patience, traffic=transport
    )
    orchestrator = reach(url, transport=transport, token=token, fingerprint=fingerprint, ca_file=ca_file)

    def make_learner(meter: Meter) -> Learner:
        return Learner(
            orchestrator,
            name or f"device-{secrets.token_hex(3)}",  # a host's name may say what it is
            make_trainer,
            emit=print_json if as_json else _print,
            make_activity=make_activity,
            options=replace(options, meter=meter),
        )

    draws = power.parse_power(busy_watts, idle_watts, joules_per_byte)
    reason = run_live(_take_part(make_learner, power.meter_maker(energy, draws)))
    if not as_json:
        print(f"the run is over: {one_line(reason)}")


async def _nothing() -> None:
    return


def _parse_states(text: str) -> list[DeviceState]:
    states = []
    for part in text.split(","):
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


async def _take_part(make_learner: Callable[[Meter], Learner], make_meter: MakeMeter) -> str:
    with contextlib.closing(make_meter(asyncio.get_running_loop().time)) as meter:
        learner = make_learner(meter)
        try:
            return await learner.run()
        except (asyncio.CancelledError, CannotKeepUp):
            await learner.leave()
            raise


def make_transport(down_mbit: float, up_mbit: float, latency_ms: float) -> Transport:
    """HTTP, held back to a link like that, if it is any slower."""
    http = HttpTransport()
    if (down_mbit, up_mbit, latency_ms) == (math.inf, math.inf, 0.0):
        return http
    return FaultyTransport(http, Link.in_mbit(down_mbit=down_mbit, up_mbit=up_mbit, latency_ms=latency_ms))


def print_json(event: Event) -> None:
    """Tell an event as a line of JSON on standard output."""
    sys.stdout.buffer.write(events.to_line(event))
    sys.stdout.flush()


def _print(event: Event) -> None:
    if isinstance(event, PhaseStarted) and event.phase == "benchmark":
        print("joined; measuring this device …", flush=True)
    if isinstance(event, DeviceMeasured):
        rates = {name: event.profile[name]["per_second"] for name in ("train", "down", "up")}
        print(
            f"measured in {event.seconds:.1f} s: trains {rates['train']:,.0f} samples/s, downloads "
            f"{rates['down'] / 1e6:,.1f} MB/s, uploads {rates['up'] / 1e6:,.1f} MB/s",
            flush=True,
        )
    if isinstance(event, RoundSpent):
        job = f"{one_line(event.job)}, " if event.job else ""
        verdict = "accepted" if event.is_accepted else "not used"
        bytes_said = ", ".join(
            f"{say_known(number, say_bytes)} {way}"
            for number, way in ((event.bytes_sent, "sent"), (event.bytes_received, "received"))
        )
        upload = "no upload" if event.upload_seconds is None else f"upload {event.upload_seconds:.2f} s: {verdict}"
        print(
            f"{job}round {event.round}: {event.num_shards} shards, {event.num_samples:,} samples; download "
            f"{event.download_seconds:.2f} s, train {event.train_seconds:.2f} s"
            f"{' (halted in time)' if event.is_halted else ''}, {upload}; {bytes_said}, "
            f"{say_known(event.joules, say_energy)}",
            flush=True,
        )
