"""``paceline reproduce``: a paper's figure, made again."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

import paceline
from paceline.cli.options import ResultAsJson, flag, option
from paceline.errors import ConfigError


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the experiment.")] = None,
    list_all: Annotated[bool, flag("--list", "List the experiments.")] = False,
    quick: Annotated[bool, flag("--quick", "Make a small run, as a trial.")] = False,
    seeds: Annotated[int | None, option("N", "Number of seeds; by default the experiment's.", min=1)] = None,
    only_redraw: Annotated[bool, flag("--redraw", "Draw and judge existing results; run nothing.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for results.")] = None,
    experiments: Annotated[Path | None, option("DIR", "Folder of all experiments.")] = None,
    as_json: ResultAsJson = False,
) -> None:
    """Reproduce a figure of a paper, and compare the two.

    Results of a full run are kept beside the experiment; those of a quick one in runs/reproduce.

    Example: paceline reproduce mel-staleness --quick
    """
    if (name is None) != list_all:
        raise ConfigError("give either the name of an experiment, or --list to list them")
    command = _load_command()
    if name is None:
        command.list_all(experiments, as_json=as_json)
        return
    command.run(name, experiments, output, is_quick=quick, num_seeds=seeds, only_redraw=only_redraw, as_json=as_json)


def _load_command() -> ModuleType:
    """Load what runs experiments, which comes with them, from the checkout of Paceline."""
    current = Path.cwd()
    for parent in (Path(paceline.__file__).parents[2], current, *current.parents):
        folder = parent / "experiments"
        if (folder / "reproduction").is_dir():
            sys.path.append(str(folder))
            return importlib.import_module("reproduction.command")
    raise ConfigError("experiments come with a checkout of Paceline, not with the package: run this in one")
