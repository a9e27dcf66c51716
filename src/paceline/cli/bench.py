"""``paceline bench``: the subset benchmark of this device for a job."""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from paceline import topologies
from paceline.axon.keys import DeviceKey
from paceline.axon.transports import CountedTransport, HttpTransport
from paceline.cli.calling import Caller, takes_caller
from paceline.cli.devices import parse_contact
from paceline.cli.options import NETWORK, Compiles, DeviceName, JobFile, ResultAsJson, Threads, option
from paceline.cli.tls import warn_of_clear_token
from paceline.devices.flops import measure_flops
from paceline.devices.machines import LiveMachine
from paceline.devices.profiles import Profile
from paceline.devices.subset_benchmark import measure_training
from paceline.errors import ConfigError
from paceline.fleets.live import run_live
from paceline.learning.accelerators import find_accelerator
from paceline.topologies.base import Contact, Node, Topology
from paceline.topologies.job_files import load_job


@takes_caller
def bench(
    job: JobFile,
    caller: Caller,
    shards: Annotated[int | None, option("N", "Number of shards to train; by default the job's.", min=1)] = None,
    device: DeviceName = "cpu",
    compiles: Compiles = False,
    threads: Threads = None,
    as_json: ResultAsJson = False,
    url: Annotated[str | None, option("URL", "Orchestrator of the job, to measure the link, too.", NETWORK)] = None,
) -> None:
    """Measure how fast this device trains a job's model.

    Example: paceline bench job.toml --shards 8
    """
    spec = load_job(job)
    topology = topologies.of_job(spec)
    try:
        task, sampled = topology.prepare(spec).benchmark_work(shards)
    except ConfigError as error:
        raise ConfigError(f"{job}: {error}") from error
    accelerator = find_accelerator(device, compiles=compiles)
    trainer = LiveMachine(threads=threads, accelerator=accelerator).trainer(task)
    train = run_live(measure_training(trainer, sampled))
    figures: dict[str, Any] = {
        "shards": len(sampled),
        "samples_per_second": train.per_second,
        "spread": train.spread,
        "device": accelerator.name,
        "precision": task.precision,
        "threads": trainer.num_threads,
        "flops": measure_flops(accelerator),
    }
    deadline_seconds = getattr(spec, "deadline_seconds", None)
    if deadline_seconds is not None:
        seconds_per_shard = getattr(spec, "local_epochs", 1) * sampled[0].num_samples / train.per_second
        figures["shards_by_deadline"] = int(deadline_seconds / seconds_per_shard)
    if url is not None:
        contact = parse_contact("--url", url)
        warn_of_clear_token(contact.address, caller.token)
        machine = LiveMachine(threads=trainer.num_threads, accelerator=accelerator)
        profile = run_live(_measure(topology, contact, caller, machine))
        figures |= {
            "down_bytes_per_second": profile.down.per_second,
            "up_bytes_per_second": profile.up.per_second,
            "latency_seconds": profile.latency_seconds,
        }
    if as_json:
        print(json.dumps(figures))
    else:
        _print(figures, deadline_seconds)


async def _measure(topology: Topology[Any], contact: Contact, caller: Caller, machine: LiveMachine) -> Profile:
    node = Node(
        name=f"bench-{secrets.token_hex(3)}",
        contacts=[contact],
        transport=CountedTransport(HttpTransport()),
        trust=caller.trust,
        key=DeviceKey.generate(),
        machine=machine,
    )
    return await topology.join(node).measure()


def _print(figures: dict[str, Any], deadline_seconds: float | None) -> None:
    table = Table("", "", title=f"This device, measured with {figures['shards']} shards", show_header=False)
    table.columns[1].justify = "right"
    table.add_row(
        "trains, one local epoch", f"{figures['samples_per_second']:,.0f} samples/s ± {figures['spread']:.1%}"
    )
    table.add_row("on", f"{figures['device']}, in {figures['precision']}")
    if figures["threads"] is not None:
        table.add_row("threads", str(figures["threads"]))
    if deadline_seconds is not None:
        table.add_row(f"shards in {deadline_seconds:g} s, network aside", f"{figures['shards_by_deadline']:,}")
    table.add_row("FLOPS baseline", f"{figures['flops'] / 1e9:,.1f} GFLOPS")
    if "latency_seconds" in figures:
        table.add_row("downloads", f"{figures['down_bytes_per_second'] / 1e6:,.1f} MB/s")
        table.add_row("uploads", f"{figures['up_bytes_per_second'] / 1e6:,.1f} MB/s")
        table.add_row("latency of a call", f"{figures['latency_seconds'] * 1000:.1f} ms")
    Console().print(table)
