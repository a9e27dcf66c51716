"""Files of settings: TOML to typed objects in one strict step.

An unknown key, a wrong type or a missing value is a `ConfigError` that names the file, the key, the value and what is
allowed.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.checks import build
from paceline.errors import ConfigError
from paceline.spelling import suggest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_FILE_BYTES = 1 << 20


def read_tables(path: Path) -> dict[str, Any]:
    """Read the tables of a file, TOML or, as runs keep them, JSON; raises `ConfigError`."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; is it the right file?")
    is_json = path.suffix == ".json"
    try:
        tables: dict[str, Any] = msgspec.json.decode(data, type=dict) if is_json else tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also of numbers too long, and tables too deep
        raise ConfigError(f"{path}: not {'JSON' if is_json else 'TOML'}: {error}") from error
    return tables


def table_named(tables: Mapping[str, Any], name: str, source: str) -> Mapping[str, Any]:
    """Return one of the tables of a file, empty if it has none of that name; raises `ConfigError` for another thing."""
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {name} is {reprlib.repr(table)}; it must be a table, [{name}]")
    return table


def check_keys(table: Mapping[str, Any], allowed: Sequence[str], source: str, what: str = "key") -> None:
    """Raise `ConfigError` for a key that is not allowed."""
    for key in table:
        if key not in allowed:
            raise ConfigError(f"{source}: unknown {what} {key!r}; {suggest(key, allowed)}")


def convert(value: Any, kind: Any, source: str) -> Any:
    """Make a struct of a table; raises `ConfigError` that begins with the source."""
    if not isinstance(value, dict):
        raise ConfigError(f"{source}: {reprlib.repr(value)} must be a table")
    try:
        return build(kind, value)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
