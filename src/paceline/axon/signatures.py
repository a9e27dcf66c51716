"""What a worker publishes of itself and its functions, and the checking and typing of arguments against it."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from paceline.axon.wire import tensors
from paceline.errors import ConfigError


class Parameter(msgspec.Struct, frozen=True):
    """One parameter as published: its name, kind, annotation as text, and whether it has a default."""

    name: str
    kind: Literal["POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "KEYWORD_ONLY", "VAR_KEYWORD"]
    annotation: str = ""
    has_default: bool = False


class Published(msgspec.Struct, frozen=True):
    """A function as a worker lists it; enough for a client to check a call before sending it."""

    name: str
    signature: str
    parameters: list[Parameter]
    returns: str = ""
    is_stream: bool = False
    doc: str = ""

    def check(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Raise `TypeError` if these arguments do not fit."""
        if not kwargs and len(args) == _num_plain(tuple(self.parameters)):
            return  # the usual call
        try:
            _callable_of(tuple(self.parameters)).bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{self.name}{self.signature}: {error}") from None


class WorkerDescription(msgspec.Struct):
    """The answer to ``GET /``."""

    device: str
    paceline: str
    wire_version: int
    rpcs: list[Published]


class RemoteFailure(msgspec.Struct):
    """Content of an error frame: the exception that the function raised."""

    type: str
    message: str
    device: str
    traceback: str = ""


@functools.lru_cache(maxsize=1024)
def _num_plain(parameters: tuple[Parameter, ...]) -> int:
    """Count the arguments that fit by position, if that is all there is to it; else -1."""
    is_plain = all(parameter.kind == "POSITIONAL_OR_KEYWORD" for parameter in parameters)
    return len(parameters) if is_plain else -1


@functools.lru_cache(maxsize=1024)
def _callable_of(parameters: tuple[Parameter, ...]) -> inspect.Signature:
    kinds, empty = inspect._ParameterKind, inspect.Parameter.empty
    return inspect.Signature(
        [inspect.Parameter(p.name, kinds[p.kind], default=None if p.has_default else empty) for p in parameters]
    )


@dataclass(frozen=True)
class Signature:
    """A function's parameters and return value with their types resolved."""

    published: Published
    _callable: inspect.Signature
    _types: Mapping[str, Any]
    _by_position: tuple[tuple[str, Any], ...] | None  # names and types, if all can be given by position

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> Signature:
        """Read a function's signature; raises `ConfigError` for one that cannot be served."""
        try:
            signature = inspect.signature(function)
            types = typing.get_type_hints(function, include_extras=True)  # ranges count, too
        except (NameError, TypeError, ValueError) as error:
            raise ConfigError(f"rpc {name!r}: its signature cannot be read: {error}") from error
        for parameter, hint in types.items():
            try:
                msgspec.msgpack.Decoder(hint)
            except TypeError as error:
                text = f"rpc {name!r}: the annotation of {parameter!r} cannot be checked: {error}"
                raise ConfigError(text) from error
        published = Published(
            name=name,
            signature=str(signature),
            parameters=[
                Parameter(
                    name=parameter.name,
                    kind=parameter.kind.name,  # type: ignore[arg-type]
                    annotation=_text(parameter.annotation),
                    has_default=parameter.default is not inspect.Parameter.empty,
                )
                for parameter in signature.parameters.values()
            ],
            returns=_text(signature.return_annotation),
            is_stream=inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function),
            doc=inspect.getdoc(function) or "",
        )
        typed = {name: hint for name, hint in types.items() if hint is not Any}
        is_plain = _num_plain(tuple(published.parameters)) >= 0
        by_position = tuple((name, typed.get(name, Any)) for name in signature.parameters) if is_plain else None
        return cls(published, signature, typed, by_position)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Check arguments and give them their annotated types; raises `TypeError` naming the parameter."""
        expected = self._by_position
        if expected is not None and not kwargs and len(args) == len(expected):
            # The usual call; ten times faster than to bind.
            return tuple([self._convert(*one, value) for one, value in zip(expected, args, strict=True)]), {}
        try:
            bound = self._callable.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.published.name}{self.published.signature}: {error}") from None
        for name, value in bound.arguments.items():
            if name in self._types:
                bound.arguments[name] = self._convert_bound(name, value)
        return bound.args, bound.kwargs

    def _convert_bound(self, name: str, value: Any) -> Any:
        hint, kind = self._types[name], self._callable.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            return tuple(self._convert(name, hint, item) for item in value)
        if kind is inspect.Parameter.VAR_KEYWORD:
            return {key: self._convert(name, hint, item) for key, item in value.items()}
        return self._convert(name, hint, value)

    def _convert(self, name: str, hint: Any, value: Any) -> Any:
        try:
            return value if hint is Any else convert(value, hint)
        except TypeError as error:
            raise TypeError(f"{self.published.name}{self.published.signature}: argument {name!r}: {error}") from None

    def convert_result(self, value: Any) -> Any:
        """Give a returned value the annotated type; raises `TypeError`."""
        return convert(value, self._types["return"]) if "return" in self._types else value

    def convert_item(self, item: Any) -> Any:
        """Give an item of a stream the type that the annotation (``Iterator[T]`` and the like) says."""
        (kind, *_) = typing.get_args(self._types.get("return")) or (Any,)
        return convert(item, kind)


def convert(value: Any, hint: Any) -> Any:
    """Make a value into the annotated type (enums, dataclasses and structs are made here); raises `TypeError`."""
    bare = hint.__origin__ if typing.get_origin(hint) is Annotated else hint
    if isinstance(value, np.generic) and bare in (bool, int, float, complex):
        value = value.item()
    try:
        return msgspec.convert(value, hint, dec_hook=_convert_custom)
    except msgspec.ValidationError as error:
        raise TypeError(str(error)) from None
    except Exception as error:  # msgspec asks objects that are no mappings, tensors for instance, for their keys
        raise TypeError(f"{type(value).__name__} cannot be made into {_text(hint)}: {error}") from None


def _convert_custom(kind: Any, value: Any) -> Any:
    """Convert to types that msgspec does not know: pass instances, make arrays and tensors from lists."""
    kind = typing.get_origin(kind) or kind
    if not isinstance(kind, type) or isinstance(value, kind):
        return value
    return tensors.from_list(kind, value)


def _text(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
