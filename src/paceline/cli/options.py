"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
import inspect
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from paceline.errors import ConfigError, in_one_line
from paceline.logs import hide, say

NETWORK = "Network"
"""Heading of the options about who talks to whom, and how they trust each other."""

TOKEN_VARIABLE = "PACELINE_TOKEN"

TRAINING = "Training"
"""Heading of the options about what a device trains, and how."""


def option(metavar: str, help: str, panel: str | None = None, **settings: Any) -> Any:
    """Declare an option with a value; its help names the default where that is not plain."""
    return typer.Option(metavar=metavar, help=help, rich_help_panel=panel, show_default=False, **settings)


def flag(name: str, help: str, panel: str | None = None, **settings: Any) -> Any:
    """Declare an option without a value."""
    return typer.Option(name, metavar="", help=help, rich_help_panel=panel, **settings)


JobFile: TypeAlias = Annotated[Path, typer.Argument(metavar="JOB", help="Job file (TOML).")]
FleetFile: TypeAlias = Annotated[Path, typer.Argument(metavar="FLEET", help="Fleet file (TOML).")]
Url: TypeAlias = Annotated[str, typer.Argument(metavar="URL", help="Host or peer: https://10.0.0.2:7223#sha256:…")]
Target: TypeAlias = Annotated[str, typer.Argument(metavar="TARGET", help="Its address, or its folder on this machine.")]
Folder: TypeAlias = Annotated[Path | None, option("DIR", "New folder for the run (one in runs/).")]
Overwrite: TypeAlias = Annotated[bool, flag("--overwrite", "Delete the run in --folder first.")]
Save: TypeAlias = Annotated[Path | None, option("FILE", "Save the model, too (.safetensors).")]
PagePort: TypeAlias = Annotated[
    int | None, option("PORT", "Show the run in a browser here: --page, or --page=PORT.", min=0, max=65535)
]
ResultAsJson: TypeAlias = Annotated[bool, flag("--json", "Print the result as JSON.")]

Track: TypeAlias = Annotated[list[str] | None, option("NAME", "Tracker: tensorboard, mlflow, wandb, json, …")]

Threads: TypeAlias = Annotated[int | None, option("N", "Threads to train with (the fastest).", TRAINING)]

DeviceName: TypeAlias = Annotated[str, option("NAME", "auto, cpu, cuda, cuda:1, mps or xpu (cpu).", TRAINING)]
Compiles: TypeAlias = Annotated[bool, flag("--compile", "Compile the model by torch.compile.", TRAINING)]

Token: TypeAlias = Annotated[str | None, option("TEXT", "Access token.", NETWORK, envvar=TOKEN_VARIABLE)]
TokenFile: TypeAlias = Annotated[Path | None, option("FILE", "File with the access token.", NETWORK)]
CaFile: TypeAlias = Annotated[str | None, option("FILE", "CA certificates to verify others with (PEM).", NETWORK)]
Tls: TypeAlias = Annotated[bool, flag("--tls", "Encrypt with a self-signed certificate.", NETWORK)]
Cert: TypeAlias = Annotated[Path | None, option("FILE", "Encrypt with this certificate (PEM).", NETWORK)]
OwnCert: TypeAlias = Annotated[Path | None, option("FILE", "Certificate to show to others (PEM).", NETWORK)]
Key: TypeAlias = Annotated[Path | None, option("FILE", "Private key of the certificate (PEM).", NETWORK)]
ClientCa: TypeAlias = Annotated[Path | None, option("FILE", "Demand certificates of these CAs (PEM).", NETWORK)]
AllowHost: TypeAlias = Annotated[list[str] | None, option("NAME", "Further name of this machine.", NETWORK)]
Insecure: TypeAlias = Annotated[bool, flag("--insecure", "Let other machines in without a token.", NETWORK)]


def takes(name: str, make: Callable[..., Any], command: Callable[..., None]) -> Callable[..., None]:
    """Replace a parameter of a command by the options of a function that makes it."""
    own, of_made = (inspect.signature(function, eval_str=True) for function in (command, make))
    options = of_made.parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = make(**{option: given.pop(option) for option in options})
        command(**{name: made}, **given)

    kept = [parameter for parameter in own.parameters.values() if parameter.name != name]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*kept, *options.values())]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def read_token(token: str | None, file: Path | None) -> str | None:
    """Return the access token: that of a file, where one is named; raises `ConfigError` if it cannot be one.

    A file comes before the environment variable. Warns of one that all users of the machine can read.
    """
    from paceline.axon.access import check_token  # with it comes PyTorch, which not all commands need

    hide(token)
    if file is None:
        check_token(token)
        return token
    if token not in (None, os.environ.get(TOKEN_VARIABLE)):
        raise ConfigError("--token and --token-file exclude each other: give one of them")
    try:
        token, mode = file.read_text().strip(), file.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file {file} cannot be read: {in_one_line(error)}") from None
    if not token:
        raise ConfigError(f"--token-file {file} is empty; it holds a token, on one line")
    try:
        check_token(token)
    except ConfigError as error:
        raise ConfigError(f"--token-file {file}: {error}") from None
    hide(token)
    if os.name == "posix" and mode & stat.S_IROTH:
        text = f"warning: all users of this machine can read {file}; chmod 600 keeps it secret"
        say("token_readable", text, level="warning", fields={"file": str(file)})
    return token
