"""``paceline invite``: let a device, or somebody, take part in a run that is served."""

from __future__ import annotations

import json
import re
import time
from typing import Annotated

import msgspec

from paceline.cli.calling import Caller, takes_caller
from paceline.cli.listening import find_host
from paceline.cli.options import ResultAsJson, Target, option
from paceline.cli.tls import page_url
from paceline.errors import ConfigError, RemoteError
from paceline.fleets.live import run_live
from paceline.spelling import suggest
from paceline.topologies.access import Invited
from paceline.topologies.access.administration import MAX_SECONDS
from paceline.topologies.access.roles import ROLES
from paceline.topologies.sessions import check_name

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@takes_caller
def invite(
    target: Target,
    caller: Caller,
    name: Annotated[str | None, option("NAME", "The device that may join, or whom it is for.")] = None,
    role: Annotated[str, option("ROLE", "learner, submitter, viewer or admin (learner).")] = "learner",
    uses: Annotated[int | None, option("N", "Devices that may join (1), or jobs to submit.", min=1)] = None,
    expires: Annotated[str, option("TIME", "How long it lasts: 30m, 24h, 7d (24h).")] = "24h",
    as_json: ResultAsJson = False,
) -> None:
    """Invite a device, or a person, to a run that is served.

    Prints the line for them to run.

    Example: paceline invite runs/20261119-100000 --name pi4
    """
    if role not in ROLES:
        raise ConfigError(f"--role is {role!r}; {suggest(role, ROLES)}")
    if name is not None:
        check_name(name)
    terms = {"role": role, "name": name or "", "uses": uses, "seconds": _seconds(expires)}
    host = find_host(target, caller)
    try:
        made: Invited = run_live(host.remote.invite.coro(terms))
    except RemoteError as error:
        raise ConfigError(f"{target}: {error.remote_message}") from error
    command = _command_for(made, host.url)
    if as_json:
        print(json.dumps({**msgspec.to_builtins(made), "command": command}))
        return
    until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(made.expires_at))
    print(f"{_what_for(made)}, until {until} UTC:\n  {command}")
    if "view" in ROLES[made.role] and made.role != "learner":
        print(f"In a browser:\n  {page_url(host.url, made.token)}")


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= MAX_SECONDS:
        raise ConfigError(f"--expires is {text!r}; allowed: a number and s, m, h or d, such as 24h, up to 3650d")
    return float(seconds)


def _what_for(made: Invited) -> str:
    match made.role:
        case "learner":
            who = made.name if made.is_for_name else "1 device" if made.uses == 1 else f"{made.uses} devices"
            return f"{who} may join"
        case "submitter":
            jobs = "jobs" if made.uses is None else "1 job" if made.uses == 1 else f"{made.uses} jobs"
            return f"{made.name} may submit {jobs}"
        case "viewer":
            return f"{made.name} may see how far the run is, and its model"
        case _:
            return f"{made.name} may do everything"


def _command_for(made: Invited, url: str) -> str:
    match made.role:
        case "learner":
            named = f" --name {made.name!r}" if " " in made.name else f" --name {made.name}"
            return f"paceline join {url}{named if made.is_for_name else ''} --token {made.token}"
        case "submitter":
            return f"paceline submit JOB --to {url} --token {made.token}"
        case "viewer":
            return f"paceline status {url} --token {made.token}"
        case _:
            return f"paceline devices {url} --token {made.token}"
