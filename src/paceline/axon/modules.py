"""Loading a Python file or module by what a user calls it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from types import ModuleType

from paceline.errors import ConfigError

init_returns = False
"""Whether ``axon.worker.init()`` returns at once, because something else serves what a script offers."""


def load(location: str) -> ModuleType:
    """Import a module by name, or a file by path; its ``axon.worker.init()`` returns at once."""
    global init_returns
    init_returns = True
    is_file = location.endswith(".py") or os.sep in location
    if is_file and not os.path.isfile(location):
        raise ConfigError(f"{location}: no such file")
    try:
        if is_file:
            return _load_file(os.path.abspath(location))
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(location)
    except ModuleNotFoundError as error:
        if error.name is not None and location.split(".")[0] == error.name:
            raise ConfigError(f"there is no module {location!r}; give its name, or a path ending in .py") from error
        raise


def _load_file(path: str) -> ModuleType:
    sys.path.insert(0, os.path.dirname(path))
    stem = os.path.splitext(os.path.basename(path))[0]
    name = f"axon_file_{stem}_{hashlib.blake2b(path.encode(), digest_size=8).hexdigest()}"  # others may have that stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    module.__axon_file__ = path  # type: ignore[attr-defined]  # where a child process finds it
    sys.modules[name] = module  # functions are traced back to their module
    spec.loader.exec_module(module)
    return module
