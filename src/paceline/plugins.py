"""Families of plug-ins: members by name, from installed packages, or the user's own by import path.

A member is built in, or declared by an installed package as an entry point of the family's group, or named by an import
path, ``package.module:Name`` or ``path/to/file.py:Name``. A device imports only paths that its owner allows.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import reprlib
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeVar

from paceline.axon import modules
from paceline.checks import build
from paceline.errors import ConfigError, in_one_line
from paceline.spelling import suggest

T = TypeVar("T")

_NOTEBOOK = "__main__"  # what is defined in a cell or at a prompt: in this process alone


@dataclass(frozen=True)
class Family(Generic[T]):
    """Members of one kind, such as policies.

    Attributes:
        noun: what a member is called in messages.
        members: built-in members by name.
        group: group of entry points by which installed packages add members, named as the members are.
    """

    noun: str
    members: Mapping[str, T]
    group: str

    def check(self, name: str) -> None:
        """Raise `ValueError` if a name is neither that of a member nor an import path; imports nothing."""
        if ":" in name:
            split_path(name)
        elif name not in self.members and name not in self._entries():
            raise ValueError(f"{self.noun} {name!r} is unknown; {suggest(name, self.names())}")

    def names(self) -> list[str]:
        """List the members that need no import path."""
        return [*self.members, *(name for name in self._entries() if name not in self.members)]

    def find(self, name: str, allowed: Collection[str] | None = None) -> T:
        """Return a member; raises `ConfigError` if there is none, or this device does not allow it.

        Args:
            allowed: import paths that may be loaded, see `load_object`; None for any.
        """
        if name in self.members:
            return self.members[name]
        if ":" in name:
            found: T = load_object(name, self.noun, allowed)
            return found
        entry = self._entries().get(name)
        if entry is None:
            raise ConfigError(f"{self.noun} {name!r} is unknown; {suggest(name, self.names())}")
        loaded: T = guarded(f"{self.noun} {name!r}", "importing it", entry.load)
        return loaded

    def name_of(self, member: T) -> str:
        """Return the name, or import path, by which `find` finds a member; raises `ConfigError` if there is none."""
        for name, known in self.members.items():
            if known is member:
                return name
        for name, entry in self._entries().items():
            if entry.load() is member:
                return name
        return path_of(member)

    def _entries(self) -> dict[str, importlib.metadata.EntryPoint]:
        return {entry.name: entry for entry in importlib.metadata.entry_points(group=self.group)}


@dataclass(frozen=True)
class TableFamily(Family[type[T]]):
    """Members that are dataclasses, each made of a table with its name, and its fields.

    Attributes:
        key: key of the table that holds the name, or import path.
        base: class that all members are derived from.
    """

    key: str
    base: type[Any]

    def make(self, table: Mapping[str, Any], default: str = "", allowed: Collection[str] | None = None) -> T:
        """Make what a table describes; raises `ConfigError`. A user's own code is imported here.

        Args:
            default: name of the member if the table has none.
            allowed: import paths that may be loaded, see `load_object`; None for any.
        """
        fields = dict(table)
        name = fields.pop(self.key, default)
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{self.key} is {reprlib.repr(name)}; {suggest(name, self.names())}")
        try:
            self.check(name)
            kind = self.find(name, allowed)
            if not (isinstance(kind, type) and issubclass(kind, self.base) and dataclasses.is_dataclass(kind)):
                base = f"{self.base.__module__}.{self.base.__qualname__}"
                raise ConfigError(f"{self.noun} {name!r} is no dataclass derived from {base}")
        except ValueError as error:
            raise ConfigError(str(error)) from None
        try:
            made: T = build(kind, fields)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from None
        return made

    def describe(self, made: T) -> dict[str, Any]:
        """Return the table of what `make` made; raises `ConfigError` for a class that nothing can import."""
        return {self.key: self.name_of(type(made)), **dataclasses.asdict(made)}  # type: ignore[call-overload]


def split_path(path: str) -> tuple[str, str]:
    """Split an import path into module or file, and name; raises `ValueError` if it is none."""
    location, _, name = path.rpartition(":")
    is_module = all(part.isidentifier() for part in location.split("."))
    if not name.isidentifier() or not (is_module or location.endswith(".py")):
        raise ValueError(f"import {path!r} must read package.module:Name or path/to/file.py:Name")
    return location, name


def path_of(member: Any) -> str:
    """Return the import path of a class or function at the top level of a module, a script, or a notebook."""
    name, location = member.__qualname__, member.__module__
    if not name.isidentifier():
        raise ConfigError(f"{name} is inside a function or class, where nothing can import it; define it at top level")
    if location == _NOTEBOOK:
        script = getattr(sys.modules[_NOTEBOOK], "__file__", None) or ""
        # A program that is piped in has a name, and no file.
        location = os.path.abspath(script) if os.path.isfile(script) else _NOTEBOOK
    return f"{getattr(sys.modules.get(location), '__axon_file__', location)}:{name}"


def is_only_here(path: str) -> bool:
    """Return whether an import path means something in this process alone, as what is defined in a notebook does."""
    return path.startswith(f"{_NOTEBOOK}:")


def check_importable(path: str) -> None:
    """Raise `ConfigError` for an import path that other processes cannot import."""
    if is_only_here(path):
        name = split_path(path)[1]
        raise ConfigError(
            f"{name} is defined in a notebook or at a prompt, where other processes cannot import it: put it in a file "
            f"(in a notebook, %%writefile {name.lower()}.py) and import it from there, or train on a VirtualFleet"
        )


def check_allowed(path: str, noun: str, allowed: Collection[str]) -> None:
    """Raise `ConfigError` for an import path that is not among the paths, modules and packages that a device allows."""
    if not any(_allows(entry, path) for entry in allowed):
        raise ConfigError(f"{noun} {path!r} is not allowed on this device; to allow it, pass --allow {path}")


def load_object(path: str, noun: str, allowed: Collection[str] | None = None) -> Any:
    """Import what a path names; raises `ConfigError` on failure, or if it is not allowed: then nothing is imported.

    Args:
        noun: what it is, for messages.
        allowed: import paths that this device allows: whole ones, modules, or packages (``"mypackage"`` allows
            ``mypackage.sub:Net``). None allows all, where the user wrote the job.
    """
    if allowed is not None:
        check_allowed(path, noun, allowed)
    location, name = split_path(path)
    found = getattr(guarded(f"{noun} {path!r}", "importing it", _load, location), name, None)
    if found is None:
        raise ConfigError(f"{noun} {path!r}: {location} has no {name!r}")
    return found


def guarded(what: str, doing: str, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """Call the user's code; whatever it raises becomes a one-line `ConfigError`."""
    try:
        return function(*arguments, **options)
    except ConfigError as error:
        raise ConfigError(f"{what}: {error}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{what}: {doing} failed: {in_one_line(error, is_named=True)}") from error


def _allows(entry: str, path: str) -> bool:
    location = path.rpartition(":")[0]
    # A file is allowed by its whole path alone: "nets" is a package, and "nets.py" is not in it.
    is_inside = not location.endswith(".py") and location.startswith(f"{entry}.")
    return entry in (path, location) or is_inside


def _load(location: str) -> ModuleType:
    if location == _NOTEBOOK:
        return sys.modules[_NOTEBOOK]
    script = getattr(sys.modules[_NOTEBOOK], "__file__", None)
    if location.endswith(".py") and script is not None and os.path.abspath(script) == os.path.abspath(location):
        return sys.modules[_NOTEBOOK]  # it runs already, and should not run twice
    return modules.load(location)
