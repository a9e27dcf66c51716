"""``paceline axon call``: ask a worker what it offers, or call it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer

from paceline import axon
from paceline.axon.client.blocking import ThreadStream
from paceline.axon.wire import tensors
from paceline.cli.calling import Caller, takes_caller
from paceline.cli.options import NETWORK, flag, option
from paceline.errors import ConfigError


@takes_caller
def call(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the worker: http://10.0.0.2:7223.")],
    caller: Caller,
    rpc: Annotated[
        str | None, typer.Argument(metavar="FUNCTION", help="Function to call; without it, all are listed.")
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Arguments, as JSON or text.")] = None,
    timeout: Annotated[float | None, option("SECONDS", "Time limit.")] = None,
    duplex: Annotated[bool, flag("--duplex", "Do not hold the connection during a long call.")] = False,
    as_json: Annotated[bool, flag("--json", "List functions as JSON; results always are.")] = False,
    fingerprint: Annotated[
        str | None, option("SHA256", "Fingerprint of the worker's self-signed certificate.", NETWORK)
    ] = None,
) -> None:
    """Call a function of a worker, or list its functions.

    Example: paceline axon call http://127.0.0.1:7223 simple_hello John
    """
    remote = caller.connect(url, fingerprint, timeout_seconds=timeout, duplex=duplex)
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
