"""Checks of fields by their annotations: types, choices and ranges, with the same message for Python and for files."""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import os
import reprlib
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from paceline.errors import one_line
from paceline.spelling import suggest

MOST = 10**15
"""Most that any count, size, rate or time may be: far beyond all that is meant, and sums of it are exact."""

Count = Annotated[int, Meta(ge=1, le=MOST)]
"""Number of things, at least one."""
MAX_SEED = (1 << 63) - 1

Seed = Annotated[int, Meta(ge=0, le=MAX_SEED)]
"""Seed of random draws."""
Positive = Annotated[float, Meta(gt=0, le=MOST)]
"""Number above 0."""
NotNegative = Annotated[float, Meta(ge=0, le=MOST)]
"""Number that is at least 0."""
Ratio = Annotated[float, Meta(ge=0, le=1)]
"""Part of a whole, from 0 to 1."""
PositiveRatio = Annotated[float, Meta(gt=0, le=1)]
"""Part of a whole, above 0."""
RatioBelowOne = Annotated[float, Meta(ge=0, lt=1)]
"""Part of a whole, below 1."""
CountOrZero = Annotated[int, Meta(ge=0, le=MOST)]
"""Number of things, possibly none."""
Label = Annotated[str, Meta(max_length=200)]
"""Text that names something."""


class _SpecType(msgspec.StructMeta):
    def __call__(cls, *values: Any, **given: Any) -> Any:
        try:
            _check_keys(given, {field.name: field.is_required for field in _fields_of(cls).values()})
        except ValueError as error:
            raise TypeError(f"{cls.__name__}: {error}") from None
        return super().__call__(*values, **given)


class Spec(msgspec.Struct, frozen=True, metaclass=_SpecType):
    """Base of what users describe in keyword arguments: says which there are, where one is unknown or missing."""


def check_fields(owner: Any) -> None:
    """Check every field of a struct or dataclass; raises `ValueError` for the first that does not fit its annotation.

    Values that fit are kept as a file would give them: whole numbers as floats where floats are due, lists as tuples,
    tables as the structs that they describe, and numbers of NumPy as plain ones.
    """
    try:
        for key, field in _fields_of(type(owner)).items():  # type: ignore[arg-type]
            value = getattr(owner, field.name)
            fitted = field.fit(key, value)
            if fitted is not value:
                # Frozen owners, too: whoever calls this is making them.
                is_struct = isinstance(owner, msgspec.Struct)
                (msgspec.structs.force_setattr if is_struct else object.__setattr__)(owner, field.name, fitted)
    except _Unfit as error:
        raise ValueError(str(error)) from None


def build(kind: Any, table: Mapping[str, Any]) -> Any:
    """Make a struct or dataclass of a table; raises `ValueError` for a key that is unknown, missing or does not fit."""
    fields = _fields_of(kind)
    _check_keys(table, {key: field.is_required for key, field in fields.items()})
    return kind(**{fields[key].name: _part(fields[key].fit, key, value) for key, value in table.items()})


def _check_keys(given: Collection[str], is_required: Mapping[str, bool]) -> None:
    for key in given:
        if key not in is_required:
            raise ValueError(f"unknown key {key!r}; {suggest(key, is_required)}")
    for key, must_be_given in is_required.items():
        if must_be_given and key not in given:
            raise ValueError(f"{key} is missing")


def fit(key: str, value: Any, hint: Any) -> Any:
    """Return a value as its annotation has it; raises `ValueError` that begins with the key if it does not fit."""
    return _part(_fitter(hint), key, value)


def why_refused(value: Any, hint: Any) -> str | None:
    """Return what is allowed if a value does not fit its annotation; else None."""
    try:
        _fitter(hint)("", value)
    except _Unfit as error:
        return error.allowed
    except ValueError as error:
        return str(error)
    return None


class _Unfit(ValueError):
    """A value itself, not a part of it, does not fit; `noun` is what it should be, None if it is that, out of range."""

    def __init__(self, key: str, value: Any, allowed: str, noun: str | None = None) -> None:
        super().__init__(f"{key} is {one_line(reprlib.repr(value))}; {allowed}")
        self.allowed = allowed
        self.noun = noun


def _wrong_type(key: str, value: Any, noun: str) -> _Unfit:
    return _Unfit(key, value, f"it must be {noun}", noun)


_Fit: TypeAlias = Callable[[str, Any], Any]
"""Takes the key and the value of a field; returns the value as it is to be kept, or raises `ValueError`."""


class _Field(NamedTuple):
    name: str
    fit: _Fit
    is_required: bool


@functools.cache
def _fields_of(kind: Any) -> dict[str, _Field]:
    """Return the fields of a struct or dataclass, by their keys in a file."""
    if issubclass(kind, msgspec.Struct):
        return {
            field.encode_name: _Field(field.name, _fitter(field.type), field.required)
            for field in msgspec.structs.fields(kind)
        }
    hints = typing.get_type_hints(kind, include_extras=True)
    missing = dataclasses.MISSING
    return {
        field.name: _Field(
            field.name, _fitter(hints[field.name]), field.default is missing and field.default_factory is missing
        )
        for field in dataclasses.fields(kind)
        if field.init
    }


def _fitter(hint: Any) -> _Fit:
    """Return the check of an annotation; one that says nothing about its values lets all pass."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _in_range(_fitter(arguments[0]), arguments[1:])
    if origin in (typing.Union, types.UnionType):
        members = [_fitter(one) for one in arguments if one is not type(None)]
        return _any_of(members, may_be_none=type(None) in arguments)
    if origin is Literal:
        return _one_of(arguments)
    if origin in (tuple, list):
        return _sequence(origin, arguments)
    if origin is dict:
        return _table(_fitter(arguments[1]))
    if hint in _PLAIN:
        return _PLAIN[hint]
    return _instance(hint) if isinstance(hint, type) else lambda key, value: value


def _whole_number(key: str, value: Any) -> int:
    if type(value) is int:  # what it mostly is: messages are checked, too
        return value
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise _wrong_type(key, value, "a whole number")
    return int(value)


def _number(key: str, value: Any) -> float:
    if type(value) is float:
        return value
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise _wrong_type(key, value, "a number")
    try:
        return float(value)
    except OverflowError:  # more digits than a float holds
        return math.inf if value == abs(value) else -math.inf


def _text(key: str, value: Any) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise _wrong_type(key, value, "text")
    return value


def _yes_or_no(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(key, value, "true or false")
    return value


_PLAIN: dict[Any, _Fit] = {
    int: _whole_number,
    float: _number,
    str: _text,
    bool: _yes_or_no,
    Any: lambda key, value: value,
}


def _in_range(inner: _Fit, extras: tuple[Any, ...]) -> _Fit:
    metas = [extra for extra in extras if isinstance(extra, Meta)]

    def fit(key: str, value: Any) -> Any:
        fitted = inner(key, value)
        for meta in metas:
            if isinstance(fitted, int | float) and not _is_inside(fitted, meta):
                raise _Unfit(key, value, _range_of(meta, fitted))
            if isinstance(fitted, str | tuple | list) and not _is_short(fitted, meta):
                parts = "characters" if isinstance(fitted, str) else "values"
                raise _Unfit(key, value, f"it has {len(fitted)} {parts}; allowed: at most {meta.max_length}")
        return fitted

    return fit


def _is_inside(value: float, meta: Meta) -> bool:
    return (
        (meta.ge is None or value >= meta.ge)
        and (meta.gt is None or value > meta.gt)
        and (meta.le is None or value <= meta.le)
        and (meta.lt is None or value < meta.lt)
    )


def _is_short(value: str | tuple[Any, ...] | list[Any], meta: Meta) -> bool:
    return meta.max_length is None or len(value) <= meta.max_length


def _range_of(meta: Meta, value: float) -> str:
    """Say what is allowed; what is so for all numbers only to a value that is beyond it."""
    bounds = {"at least": meta.ge, "above": meta.gt, "at most": meta.le, "below": meta.lt}
    named = {
        word: str(bound) if isinstance(bound, int) and bound != MOST else f"{bound:g}"
        for word, bound in bounds.items()
        if bound is not None and (bound not in (MOST, MAX_SEED) or value > bound)
    }
    if named.keys() == {"at least", "at most"}:
        return f"allowed: {named['at least']} to {named['at most']}"
    return "it must be " + " and ".join(f"{word} {bound}" for word, bound in named.items())


def _any_of(members: list[_Fit], *, may_be_none: bool) -> _Fit:
    def fit(key: str, value: Any) -> Any:
        if value is None and may_be_none:
            return None
        nouns = []
        for member in members:
            try:
                return member(key, value)
            except _Unfit as error:
                if error.noun is None:
                    raise
                nouns.append(error.noun)
        raise _wrong_type(key, value, " or ".join(nouns))

    return fit


def _one_of(choices: tuple[Any, ...]) -> _Fit:
    def fit(key: str, value: Any) -> Any:
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return value
        is_of_type = any(type(value) is type(choice) for choice in choices)
        noun = None if is_of_type else f"one of {', '.join(map(str, choices))}"
        raise _Unfit(key, value, suggest(value, map(str, choices)), noun)

    return fit


def _sequence(kind: type, arguments: tuple[Any, ...]) -> _Fit:
    is_fixed = kind is tuple and arguments[-1:] != (...,)
    inner = [_fitter(one) for one in (arguments if is_fixed else arguments[:1])]

    def fit(key: str, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _wrong_type(key, value, "a list")
        if is_fixed and len(value) != len(inner):
            raise _Unfit(key, value, f"it must have {len(inner)} values")
        fitters = inner if is_fixed else inner * len(value)
        fitted = [
            _part(fitter, f"{key} {number}", one)
            for number, (fitter, one) in enumerate(zip(fitters, value, strict=True), 1)
        ]
        is_same = type(value) is kind and all(one is other for one, other in zip(fitted, value, strict=True))
        return value if is_same else kind(fitted)

    return fit


def _table(inner: _Fit) -> _Fit:
    def fit(key: str, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _wrong_type(key, value, "a table")
        return {name: _part(inner, f"{key} {name}", one) for name, one in value.items()}

    return fit


def _part(inner: _Fit, key: str, value: Any) -> Any:
    """Fit a field, or a part of a value; what is wrong with it says nothing about the type of the whole."""
    try:
        return inner(key, value)
    except _Unfit as error:
        raise ValueError(str(error)) from None


def _instance(kind: type) -> _Fit:
    is_struct = issubclass(kind, msgspec.Struct)
    noun = f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"

    def fit(key: str, value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if not is_struct or not isinstance(value, Mapping):
            raise _wrong_type(key, value, f"a table, or {noun}" if is_struct else noun)
        try:
            return build(kind, value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None

    return fit
