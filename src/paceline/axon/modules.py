"""Loading the Python file or module that a process is told to serve."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from types import SimpleNamespace
from typing import Any

from paceline.axon import worker
from paceline.errors import ConfigError


def load(location: str) -> Any:
    """Import a module by name, or run a file by path; its ``axon.worker.init()`` returns at once.

    Returns:
        an object with the module's names as attributes.
    """
    worker.init_returns = True
    is_file = location.endswith(".py") or os.sep in location
    if is_file and not os.path.isfile(location):
        raise ConfigError(f"{location}: no such file")
    try:
        if is_file:
            sys.path.insert(0, os.path.dirname(os.path.abspath(location)))
            return SimpleNamespace(**runpy.run_path(location, run_name="__axon__"))
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(location)
    except ModuleNotFoundError as error:
        if error.name is not None and location.split(".")[0] == error.name:
            raise ConfigError(f"there is no module {location!r}; give its name, or a path ending in .py") from error
        raise
