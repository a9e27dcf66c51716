"""``paceline install-service``: have systemd run a command of Paceline, from each boot on."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli.main import load
from paceline.cli.options import flag, option, read_token
from paceline.cli.units import HEADER, Service, credential, literal
from paceline.errors import ConfigError
from paceline.files import reason_of
from paceline.learning.memory import parse_bytes
from paceline.spelling import suggest
from paceline.topologies.base import COMMAND_WITHOUT_HOST
from paceline.topologies.sessions import check_name

SERVICES = ("join", COMMAND_WITHOUT_HOST, "serve")
"""Commands that may run as services."""

_CREDENTIALS = {
    "token_file": "--token-file",
    "ca_file": "--ca-file",
    "cert": "--cert",
    "key": "--key",
    "client_ca": "--client-ca",
}
"""Options that name a file which the service reads and nobody else needs to."""

_INPUTS = {**_CREDENTIALS, "job": "JOB", "contention": "--contention"}
_HOMES = ("/home", "/root", "/run/user")
_SYSTEM_UNITS = Path("/etc/systemd/system")


def install_service(
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="join, gossip or serve.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Its arguments and options.")] = None,
    write: Annotated[bool, flag("--write", "Write the unit, instead of printing it.")] = False,
    own: Annotated[bool, flag("--user", "For systemd of this user, not of the machine.")] = False,
    unit: Annotated[str | None, option("NAME", "Name of the service (paceline-COMMAND).")] = None,
    run_as: Annotated[str | None, option("ACCOUNT", "Account to run in (one made for it).")] = None,
    always: Annotated[bool, flag("--always", "Start again after a run is over, for the next.")] = False,
    memory: Annotated[str | None, option("SIZE", "Most memory, as in 1.5G.")] = None,
    cpus: Annotated[float | None, option("N", "Most cores, as in 1.5.", min=0.01)] = None,
) -> None:
    """Have systemd run a command, from each boot on.

    Prints a unit, or writes it. Its own options come before COMMAND, those of the command after it.

    Example: paceline install-service --memory 1.5G join URL --name pi4 --token-file /etc/paceline/token
    """
    if command not in SERVICES:
        raise ConfigError(f"COMMAND is {command!r}; {suggest(command, SERVICES)}")
    name = unit or f"paceline-{command}"
    if not re.fullmatch(r"[a-zA-Z0-9][\w-]{0,60}", name, re.ASCII):
        raise ConfigError(f"--unit is {name!r}; allowed: up to 61 letters, digits, - and _")
    if own and run_as is not None:
        raise ConfigError("--user and --run-as exclude each other: a user's own service runs in that account")
    if run_as is not None and not re.fullmatch(r"[a-z_][\w.-]{0,30}", run_as, re.ASCII):
        raise ConfigError(f"--run-as is {run_as!r}; it is the name of an account, such as pi")
    given = _parse(command, arguments or [])
    args = [*(arguments or []), *_added(command, given, memory)]
    if not own and run_as is None:
        _check_homes(given)
    service = Service(
        name=name,
        description=f"Paceline: {command} {given.get('name') or given.get('job') or ''}".strip(),
        arguments=[*map(literal, (sys.executable, "-m", "paceline", command)), *_as_credentials(args, own)],
        credentials={} if own else {key: str(given[key]) for key in _CREDENTIALS if given.get(key)},
        environment={} if own or "device_key" not in given else {"PACELINE_DEVICE_KEY": f"%S/{name}/device-key.pem"},
        user=run_as,
        is_own=own,
        is_background=command != "serve",
        is_always=always,
        needs_devices=given["device"] != "cpu",
        max_memory_bytes=None if memory is None else parse_bytes("--memory", memory),
        max_cpus=cpus,
    )
    if write:
        read_token(None, given["token_file"])  # first: what is wrong with it should not wait for the start
        _write(service, own)
    else:
        print(service.unit(), end="")


def _parse(command: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command's parameters; raises `ConfigError` for what a service cannot have."""
    context = load(command).make_context(command, list(arguments))
    given: dict[str, Any] = context.params
    if context.get_parameter_source("token").name == "COMMANDLINE":
        raise ConfigError(
            "--token would stand in the unit, which all users of the machine can read: write the token to a file "
            "that only root can read, and name that by --token-file"
        )
    for key, shown in _INPUTS.items():
        if given.get(key) and not Path(given[key]).is_absolute():
            raise ConfigError(
                f"{shown} is {str(given[key])!r}; a service starts in a folder of its own, so its path must be "
                f"absolute, such as {Path(given[key]).absolute()}"
            )
    if given.get("overwrite"):
        raise ConfigError("--overwrite would delete the run at each start: leave it out")
    if command == COMMAND_WITHOUT_HOST and given["folder"] is not None:
        raise ConfigError("--folder of a peer is refused from the second start on: leave it out")
    if command != "serve":
        if given["name"] is None:
            raise ConfigError("a service needs --name: without it, the device has another name after each start")
        check_name(given["name"])
    return given


def _added(command: str, given: dict[str, Any], memory: str | None) -> list[str]:
    """Return options without which a command would not come back, or not know its bound."""
    if command == "serve":
        return [*([] if given["folder"] else ["--folder", "run"]), *([] if given["resume"] else ["--resume"])]
    state = ["--state", "peer-state"] if command == COMMAND_WITHOUT_HOST and given["state"] is None else []
    return [*state, *(["--max-memory", memory] if memory is not None and given["max_memory"] is None else [])]


def _as_credentials(arguments: Sequence[str], own: bool) -> list[str]:
    """Replace the paths of credentials by those where systemd puts them; a user's own service reads the files."""
    if own:
        return [literal(argument) for argument in arguments]
    names, replaced, last = {shown: key for key, shown in _CREDENTIALS.items()}, [], ""
    for argument in arguments:
        shown, equals, _ = argument.partition("=")
        if last in names:
            replaced.append(credential(names[last]))
        elif equals and shown in names:
            replaced.append(f"{shown}={credential(names[shown])}")
        else:
            replaced.append(literal(argument))
        last = "" if last in names else argument
    return replaced


def _check_homes(given: dict[str, Any]) -> None:
    """Refuse what is in a home, which an account made for the service cannot read."""
    read = [sys.prefix, sys.executable, os.path.realpath(sys.executable)]
    read += [str(given[key]) for key in _INPUTS.keys() - _CREDENTIALS.keys() if given.get(key)]
    for path in read:
        if any(Path(path).is_relative_to(home) for home in _HOMES):
            raise ConfigError(
                f"{path} is in a home, which the account made for the service cannot read: have it elsewhere, such as "
                "in /opt/paceline, or name the account to run in (--run-as), or make it a service of your own (--user)"
            )


def _write(service: Service, own: bool) -> None:
    folder = Path(typer.get_app_dir("systemd"), "user") if own else _SYSTEM_UNITS
    path = folder / f"{service.name}.service"
    try:
        if path.exists() and not path.read_text().startswith(HEADER):
            raise ConfigError(f"{path} is there, and paceline did not make it: name the service otherwise (--unit)")
        text = service.unit()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "what is there is no text"
        hint = "write as root, or a unit of your own (--user)"
        raise ConfigError(f"{path} cannot be written: {reason}; {hint}") from error
    systemctl = "systemctl --user" if own else "systemctl"
    print(f"{path}\nTo start it, now and at each boot, run")
    print(f"  {systemctl} daemon-reload && {systemctl} enable --now {service.name}")
    if own:
        print("To have it run while you are not logged in, run\n  loginctl enable-linger")
