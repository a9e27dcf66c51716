"""``paceline status``: how far a run or a peer is, and its model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from paceline import axon
from paceline.cli.devices import parse_contact
from paceline.cli.lines import one_line
from paceline.errors import PacelineError, RemoteError
from paceline.learning import checkpoints
from paceline.topologies.base import Described, Description


def status(
    url: Annotated[str, typer.Argument(help="Address of a host or a peer, like https://10.0.0.2:7223#sha256:…")],
    token: Annotated[str | None, typer.Option(envvar="PACELINE_TOKEN", help="The run's token.")] = None,
    ca_file: Annotated[str | None, typer.Option(help="Authorities that signed its certificate.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write its model there (.safetensors).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Ask a host or a peer how far it is, and save its model as it is now.

    Example: paceline status http://10.0.0.2:7223 --save model.safetensors
    """
    contact = parse_contact("URL", url)
    remote = axon.connect(
        contact.address, interface=Described, token=token, fingerprint=contact.fingerprint, ca_file=ca_file
    )

    async def ask() -> tuple[Description, dict[str, torch.Tensor] | None]:
        return await remote.describe.coro(), None if save is None else await remote.model.coro()

    try:
        found, state = asyncio.run(ask())
    except RemoteError as error:
        raise PacelineError(f"{contact.address}: {error.remote_message}") from error
    except (ValueError, TypeError) as error:
        raise PacelineError(f"{contact.address} does not answer as Paceline does: {error}") from error
    if save is not None and state is not None:
        checkpoints.write(save, state)
    if as_json:
        saved = str(save) if save else None
        print(json.dumps({"topology": found.topology, "paceline": found.paceline, **found.status, "saved": saved}))
        return
    print(one_line(f"{found.topology}, paceline {found.paceline}"))
    for line in _lines(found.status):
        print(one_line(line))
    if save is not None:
        print(f"model  {save}")


def _lines(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for entry in value:
                yield ", ".join(f"{key} {shown}" for key, shown in entry.items() if shown not in (None, ""))
        elif value not in (None, "", []):
            yield f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
