"""``paceline call``: ask a worker what it offers, or call it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer

from paceline import axon
from paceline.axon.client.blocking import ThreadStream
from paceline.axon.wire import tensors
from paceline.errors import ConfigError


def call(
    url: Annotated[str, typer.Argument(help="The worker's address, like http://10.0.0.2:7223.")],
    rpc: Annotated[str | None, typer.Argument(help="The function to call; without it, all are listed.")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments: JSON, or else text.")] = None,
    token: Annotated[str | None, typer.Option(envvar="PACELINE_TOKEN", help="What the worker wants to see.")] = None,
    fingerprint: Annotated[str | None, typer.Option(help="Of the worker's self-made certificate.")] = None,
    ca_file: Annotated[str | None, typer.Option(help="Authorities that signed the worker's certificate.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds to wait.")] = None,
    duplex: Annotated[bool, typer.Option("--duplex", help="For long calls: do not hold the connection.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="List functions as JSON. Results always are.")] = False,
) -> None:
    """Call a worker's function and print the result as JSON; without a function, list what there is.

    Example: paceline call http://127.0.0.1:7223 simple_hello John
    """
    remote = axon.connect(
        url, token=token, fingerprint=fingerprint, ca_file=ca_file, timeout_seconds=timeout, duplex=duplex
    )
    if rpc is None:
        _print_description(remote, as_json)
        return
    try:
        result = remote[rpc](*(_parse(argument) for argument in arguments or []))
    except (AttributeError, TypeError) as error:  # no such function, or arguments that do not fit
        raise ConfigError(str(error)) from error
    if isinstance(result, ThreadStream):
        for item in result:
            print(_as_json(item), flush=True)
    else:
        print(_as_json(result))


def _print_description(remote: axon.Remote, as_json: bool) -> None:
    description = remote.describe_worker()
    if as_json:
        print(json.dumps(msgspec.to_builtins(description), indent=2))
        return
    print(f"{description.device} (paceline {description.paceline}) at {remote.url} offers")
    for rpc in description.rpcs:
        summary = rpc.doc.partition("\n")[0]
        print(f"  {rpc.name}{rpc.signature}" + (f"\n      {summary}" if summary else ""))


def _parse(argument: str) -> Any:
    try:
        return json.loads(argument)
    except ValueError:
        return argument


def _as_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=tensors.to_list).decode()
    except (TypeError, OverflowError) as error:
        raise ConfigError(f"the result cannot be printed as JSON: {error}") from error
