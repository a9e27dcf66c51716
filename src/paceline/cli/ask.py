"""``paceline ask``: how far a peer is, and its model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from paceline import config
from paceline.cli.gossip import parse_peer
from paceline.cli.lines import one_line
from paceline.errors import ConfigError, PacelineError
from paceline.learning import checkpoints
from paceline.topologies.gossip import Access, make_plan
from paceline.topologies.gossip.board import Copies
from paceline.topologies.gossip.messages import Progress, Shown


def ask(
    url: Annotated[str, typer.Argument(help="The peer's address, like http://10.0.0.2:7223.")],
    token: Annotated[str | None, typer.Option(envvar="PACELINE_TOKEN", help="What the peer asks for.")] = None,
    ca_file: Annotated[str | None, typer.Option(help="Authorities that signed its certificate.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write its model there (.safetensors); needs --job.")] = None,
    job: Annotated[Path | None, typer.Option(help="The gossip job file, which tells the model's layout.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Ask a peer how far it is and whom it knows, and save its model as it is now.

    Example: paceline ask http://10.0.0.2:7223 --job job.toml --save model.safetensors
    """
    if (save is None) != (job is None):
        raise ConfigError("--save and --job belong together: a model is saved by the names of its job's layers")
    known = parse_peer("URL", url)
    plan = None if job is None else make_plan(config.load_gossip(job))
    access = Access(token=token, ca_file=ca_file)
    remote = access.reach(*known, None if plan is None else plan.model_bytes)

    async def fetch() -> tuple[Progress, Shown | None]:
        progress: Progress = await remote.progress.coro()
        return progress, None if plan is None else await remote.adopt.coro("", "")

    try:
        progress, shown = asyncio.run(fetch())
    except (ValueError, TypeError) as error:
        raise PacelineError(f"{known.address} does not answer as a peer does: {error}") from error
    if save is not None and plan is not None and shown is not None:
        parameters = Copies(plan.model.parameters()).take(progress.learner, shown)
        checkpoints.write(save, plan.state(parameters))
    if as_json:
        print(json.dumps({**msgspec.to_builtins(progress), "saved": str(save) if save else None}))
        return
    accuracy = "" if progress.accuracy is None else f", accuracy {progress.accuracy:.1%}"
    print(
        f"{one_line(progress.learner)}: epoch {progress.epoch} of {progress.epochs}{accuracy}, trains "
        f"{progress.ratio:.0%} of its data at {progress.samples_per_second:,.0f} samples/s"
    )
    print(one_line(f"living: {', '.join(progress.living)}"))
    if progress.gone:
        print(one_line(f"gone: {', '.join(progress.gone)}"))
    if save is not None:
        print(f"model  {save}")
