"""``paceline devices``: who has joined a run that is served, and who may not any more."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec

from paceline.cli.calling import Caller, takes_caller
from paceline.cli.listening import AdminHost, find_host
from paceline.cli.options import ResultAsJson, Target, option
from paceline.errors import ConfigError, RemoteError, one_line
from paceline.fleets.live import run_live
from paceline.topologies.access import Listed

_HEADINGS = ("name", "role", "state", "key", "address", "since (UTC)", "last seen", "joined by", "uses", "expires")


@takes_caller
def devices(
    target: Target,
    caller: Caller,
    revoke: Annotated[str | None, option("NAME", "Refuse this device, or this invitation, from now on.")] = None,
    release: Annotated[str | None, option("NAME", "Let another device have this name.")] = None,
    as_json: ResultAsJson = False,
) -> None:
    """List the devices of a run that is served, or revoke one.

    Example: paceline devices runs/20261119-100000 --revoke pi4
    """
    if revoke is not None and release is not None:
        raise ConfigError("--revoke and --release exclude each other: give one of them")
    host = find_host(target, caller)
    try:
        found: list[Listed] = run_live(_ask(host, revoke, release))
    except RemoteError as error:
        raise ConfigError(f"{target}: {error.remote_message}") from error
    if as_json:
        print(json.dumps(msgspec.to_builtins(found)))
        return
    for row in _aligned([_HEADINGS, *map(_row, found)]):
        print(row)


async def _ask(host: AdminHost, revoke: str | None, release: str | None) -> list[Listed]:
    if revoke is not None:
        await host.remote.revoke.coro(revoke)
    if release is not None:
        await host.remote.release.coro(release)
    found: list[Listed] = await host.remote.devices.coro()
    return found


def _row(one: Listed) -> tuple[str, ...]:
    uses = "" if one.expires_at is None else f"{one.used} of {'any' if one.uses is None else one.uses}"
    moments = [_moment(seconds) for seconds in (one.since, one.seen_at, one.expires_at)]
    return (one.name, one.role, one.state, one.key, one.address, *moments[:2], one.by, uses, moments[2])


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [[one_line(cell) or "–" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
