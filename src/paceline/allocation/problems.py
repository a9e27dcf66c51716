"""Allocation problems by name, and reading them from JSON."""

from __future__ import annotations

import reprlib
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.allocation.csa import CsaProblem, RelaxedCsaProblem, SuggestedCsaProblem
from paceline.allocation.dab import DabProblem
from paceline.allocation.edge_gossip import EdgeGossipProblem
from paceline.allocation.equal import EtaProblem
from paceline.allocation.med import GreedyProblem, MedProblem, MmttProblem
from paceline.allocation.problem_base import Problem
from paceline.allocation.sync import SyncProblem
from paceline.checks import why_refused
from paceline.errors import ConfigError
from paceline.spelling import suggest

PROBLEMS: dict[str, type[Problem]] = {
    "dab": DabProblem,
    "csa": CsaProblem,
    "sync": SyncProblem,
    "eta": EtaProblem,
    "csa-relaxed": RelaxedCsaProblem,
    "csa-sai": SuggestedCsaProblem,
    "med": MedProblem,
    "mmtt": MmttProblem,
    "greedy": GreedyProblem,
    "edge-gossip": EdgeGossipProblem,
}
"""Problems, by the name of their policy."""


def read_problem(text: bytes, source: str) -> Problem:
    """Read the problem in a JSON document; raises `ConfigError` that names the source, the key and the value."""
    try:
        document = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{source}: not JSON: {error}") from None
    try:
        return _to_problem(document)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def _number(literal: str) -> float:
    """Read a number with a point or an exponent; whole ones, such as 4e5, become integers."""
    number = float(literal)
    return int(number) if abs(number) < 2**53 and number.is_integer() else number


_decoder = msgspec.json.Decoder(float_hook=_number)


def _to_problem(document: Any) -> Problem:
    if not isinstance(document, dict):
        raise ConfigError(f'a problem is an object, like {{"policy": …}}; this is {reprlib.repr(document)}')
    policy = document.pop("policy", None)
    if not isinstance(policy, str) or policy not in PROBLEMS:
        raise ConfigError(f"policy is {reprlib.repr(policy)}; {suggest(policy, sorted(PROBLEMS))}")
    try:
        return msgspec.convert(document, PROBLEMS[policy])
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(document, PROBLEMS[policy], "") or str(error)) from None


def _explain(value: Any, kind: Any, key: str) -> str | None:
    """Explain what is wrong with a value, by its innermost key; msgspec's errors name neither index nor value."""
    plain = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
    inner: str | None = None
    if isinstance(plain, type) and issubclass(plain, msgspec.Struct) and isinstance(value, dict):
        inner = _explain_keys(value, plain, key)
    elif typing.get_origin(plain) is list and isinstance(value, list):
        [item_kind] = typing.get_args(plain)
        inner = next(filter(None, (_explain(item, item_kind, f"{key}[{i}]") for i, item in enumerate(value))), None)
    if inner is not None:
        return inner
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        allowed = why_refused(value, kind)
        return f"{key} is {reprlib.repr(value)}{f': {error}' if allowed is None else f'; {allowed}'}"
    return None


def _explain_keys(value: Mapping[str, Any], kind: type[msgspec.Struct], key: str) -> str | None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    where = f"{key}: " if key else ""
    for name in value:
        if name not in fields:
            return f"{where}unknown key {name!r}; {suggest(name, sorted(fields))}"
    for name, field in fields.items():
        if name not in value:
            if field.required:
                return f"{where}{name} is missing"
            continue
        inner = _explain(value[name], field.type, f"{key}.{name}" if key else name)
        if inner is not None:
            return inner
    return None
