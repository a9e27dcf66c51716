"""The functions a worker offers, with where each of them runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paceline.axon.signatures import Signature
from paceline.axon.worker.executors import Executor, LoopExecutor, ThreadExecutor
from paceline.errors import ConfigError
from paceline.spelling import suggest

EXECUTORS = ("loop", "thread", "process")


def executor_type(name: str) -> type[Executor]:
    """Return the executor of a name in `EXECUTORS`; that of processes is loaded only here."""
    if name == "process":
        from paceline.axon.processes import ProcessExecutor

        return ProcessExecutor
    return LoopExecutor if name == "loop" else ThreadExecutor


@dataclass(frozen=True)
class Rpc:
    """A function that a worker offers."""

    name: str
    function: Callable[..., Any]
    executor: str
    signature: Signature


class Registry:
    """Functions by the name they are called by."""

    def __init__(self) -> None:
        self._rpcs: dict[str, Rpc] = {}

    def __iter__(self) -> Any:
        return iter(self._rpcs.values())

    def add(self, function: Callable[..., Any], name: str | None, executor: str | None) -> None:
        """Offer a function; raises `ConfigError` for one that cannot be served."""
        name = name or function.__name__
        is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        executor = executor or ("loop" if is_async else "thread")
        if executor not in EXECUTORS:
            raise ConfigError(f"rpc {name!r}: executor {executor!r} is unknown; allowed: {', '.join(EXECUTORS)}")
        if not all(part.isidentifier() for part in name.split(".")):
            raise ConfigError(f"rpc {name!r}: a name is made of identifiers with dots between them")
        known = self._rpcs.get(name)
        if known is not None and _origin(known.function) != _origin(function):
            raise ConfigError(f"rpc {name!r} is offered twice, by {_origin(known.function)} and {_origin(function)}")
        executor_type(executor).check(function)
        self._rpcs[name] = Rpc(name, function, executor, Signature.of(function, name))

    def find(self, name: str) -> Rpc:
        """Find the function of that name; raises `KeyError` that says what there is."""
        if name in self._rpcs:
            return self._rpcs[name]
        raise KeyError(f"no rpc {name!r}; {suggest(name, self._rpcs)}")


def _origin(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"
