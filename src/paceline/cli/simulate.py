"""``paceline simulate``: a job on a modelled fleet, on virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline import config
from paceline.cli import results
from paceline.errors import ConfigError
from paceline.fleets.virtual import VirtualFleet
from paceline.fleets.virtual_nodes import VirtualNodes
from paceline.fleets.virtual_peers import VirtualPeers


def simulate(
    job: Annotated[Path, typer.Argument(help="The job file: of a job, a pool, a gossip job or a split job (TOML).")],
    fleet: Annotated[Path, typer.Argument(help="The fleet file (TOML).")],
    folder: Annotated[Path | None, typer.Option(help="A new folder for the run; by default in runs/.")] = None,
    time_only: Annotated[bool, typer.Option("--time-only", help="Leave the gradients out; only time passes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a job on a modelled fleet: the same code on virtual time, exactly repeatable from the job's seed.

    Example: paceline simulate job.toml fleet.toml
    """
    devices = config.load_fleet(fleet)
    if config.is_gossip(job):
        peers = VirtualPeers(devices, is_time_only=time_only)
        results.play_gossip(config.load_gossip(job), peers, folder, as_json=as_json)
        return
    if config.is_split(job):
        if time_only:
            raise ConfigError("--time-only: the messages of a split job are made of its gradients; leave it out")
        results.play_split(config.load_split(job), VirtualNodes(devices), folder, as_json=as_json)
        return
    results.play(job, VirtualFleet(devices, is_time_only=time_only), folder, as_json=as_json)
