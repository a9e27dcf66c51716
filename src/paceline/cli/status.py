"""``paceline status``: how far a run or a peer is, and its model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from paceline.cli.calling import Caller, takes_caller
from paceline.cli.devices import parse_contact
from paceline.cli.options import ResultAsJson, Save, Url
from paceline.errors import PacelineError, RemoteError, one_line
from paceline.learning import checkpoints
from paceline.topologies.base import Description, RoleService


@takes_caller
def status(url: Url, caller: Caller, save: Save = None, as_json: ResultAsJson = False) -> None:
    """Show the progress of a host or a peer, or save its model.

    Example: paceline status http://10.0.0.2:7223 --save model.safetensors
    """
    contact = parse_contact("URL", url)
    remote = caller.connect(*contact, interface=RoleService)

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
    """Show each value on a line of its own; entries of a list of tables, too."""
    for name, value in values.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from (", ".join(_lines(entry)) for entry in value)
        elif value not in (None, "", []):
            words = name.removeprefix("num_").replace("_", " ")
            yield f"{words}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
