"""Files of settings: TOML to typed objects in one strict step.

An unknown key, a wrong type or a missing value is a `ConfigError` that names the file, the key, the value and what is
allowed.
"""

from __future__ import annotations

import reprlib
import sys
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from paceline.checks import why_refused
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
    """Make a typed object of plain values; raises `ConfigError` that begins with the source."""
    is_table = is_struct_type(kind)
    if is_table:
        if not isinstance(value, dict):
            raise ConfigError(f"{source}: {reprlib.repr(value)} must be a table")
        check_keys(value, [field.encode_name for field in msgspec.structs.fields(kind)], source, "key")
        value = {**value, **_inner_tables(value, kind, source)}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        key = where.rstrip("`").lstrip(".").partition("[")[0]
        if is_table and not key:
            raise ConfigError(f"{source}: {message}") from None
        if is_table:
            types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
            value, kind = value.get(key), types.get(key)
        else:
            source, _, key = source.rpartition(" ")
        allowed = why_refused(value, kind)
        if allowed is not None:
            raise ConfigError(f"{source}: {key} is {reprlib.repr(value)}; {allowed}") from None
        raise ConfigError(f"{source} {key} = {reprlib.repr(value)}: {message}{_choices(kind)}") from None


def _inner_tables(value: Mapping[str, Any], kind: type[msgspec.Struct], source: str) -> dict[str, Any]:
    """Convert the keys of a table that hold tables in turn one by one, so that a message names the right one."""
    inner = {}
    for field in msgspec.structs.fields(kind):
        entries, kinds = value.get(field.encode_name), typing.get_args(field.type)
        if isinstance(entries, dict) and is_struct_type(field.type):
            inner[field.encode_name] = convert(entries, field.type, f"{source} {field.encode_name}")
        elif isinstance(entries, list) and kinds and is_struct_type(kinds[0]):
            inner[field.encode_name] = [
                convert(entry, kinds[0], f"{source} {field.encode_name} {number}")
                for number, entry in enumerate(entries, 1)
            ]
    return inner


def is_struct_type(kind: Any) -> bool:
    """Return whether a type is of structs, which are tables in a file."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _choices(kind: Any) -> str:
    """List what is allowed, for a key that takes one of a few words or numbers."""
    is_choice = typing.get_origin(kind) is Literal
    return f"; allowed: {', '.join(map(str, typing.get_args(kind)))}" if is_choice else ""
