"""``paceline new``: a project to begin with."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Annotated

import typer

from paceline.errors import ConfigError

_FILES = ("README.md", "data.py", "fleet.toml", "job.toml", "task.py", "test_project.py")


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make; it may exist, if it is empty.")],
) -> None:
    """Write a project that runs: task, data, job, fleet, test.

    Example: paceline new spirals
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty: name a new folder")
        for name in _FILES:
            text = importlib.resources.files("paceline.cli").joinpath(f"new_project/{name}").read_text()
            (folder / name).write_text(text.replace("PROJECT", folder.resolve().name))
    except OSError as error:
        raise ConfigError(f"{folder}: a project cannot be written there: {error.strerror}") from error
    print(f"The project is in {folder}. To train it on simulated devices, run")
    print(f"  cd {folder} && paceline simulate job.toml fleet.toml")
