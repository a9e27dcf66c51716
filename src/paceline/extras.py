"""Packages that only some features need: each comes with an extra of Paceline, and is imported where it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from paceline.errors import ConfigError


@contextlib.contextmanager
def extra(name: str) -> Iterator[None]:
    """Import within, from packages that the extra installs; raises `ConfigError` that says how to get a missing one."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise ConfigError(f"{package} is not installed; run pip install 'paceline[{name}]'") from None
