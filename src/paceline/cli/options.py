"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from paceline.errors import ConfigError

NETWORK = "Network"
"""Heading of the options about who talks to whom, and how they trust each other."""

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
Folder: TypeAlias = Annotated[Path | None, option("DIR", "New folder for the run (one in runs/).")]
Resume: TypeAlias = Annotated[Path | None, option("RUN", "Folder of an interrupted run to resume.")]
Overwrite: TypeAlias = Annotated[bool, flag("--overwrite", "Delete the run in --folder first.")]
Rounds: TypeAlias = Annotated[int | None, option("N", "With --resume: rounds in all, if more are wanted.", min=1)]
Save: TypeAlias = Annotated[Path | None, option("FILE", "Save the model, too (.safetensors).")]
ResultAsJson: TypeAlias = Annotated[bool, flag("--json", "Print the result as JSON.")]

Threads: TypeAlias = Annotated[int | None, option("N", "Threads to train with (the fastest).", TRAINING)]

DeviceName: TypeAlias = Annotated[str, option("NAME", "auto, cpu, cuda, cuda:1, mps or xpu (cpu).", TRAINING)]
Compiles: TypeAlias = Annotated[bool, flag("--compile", "Compile the model by torch.compile.", TRAINING)]

Token: TypeAlias = Annotated[str | None, option("TEXT", "Access token.", NETWORK, envvar="PACELINE_TOKEN")]
CaFile: TypeAlias = Annotated[str | None, option("FILE", "CA certificates to verify others with (PEM).", NETWORK)]
Tls: TypeAlias = Annotated[bool, flag("--tls", "Encrypt with a self-signed certificate.", NETWORK)]
Cert: TypeAlias = Annotated[Path | None, option("FILE", "Encrypt with this certificate (PEM).", NETWORK)]
Key: TypeAlias = Annotated[Path | None, option("FILE", "Private key of the certificate (PEM).", NETWORK)]
Insecure: TypeAlias = Annotated[bool, flag("--insecure", "Let other machines in without a token.", NETWORK)]


def check_rounds(rounds: int | None, resume: Path | None) -> None:
    """Raise `ConfigError` for a number of rounds where no run is resumed."""
    if rounds is not None and resume is None:
        raise ConfigError("--rounds is for a run that is resumed; a new one has rounds in its job file")
