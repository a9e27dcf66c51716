"""The two forms of a call's body: Axon frames for workers and their clients, JSON for people and curl."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

import msgspec

from paceline.axon import wire
from paceline.axon.messages import AXON_TYPE, JSON_TYPE, Body
from paceline.axon.wire import Kind, Limits, tensors
from paceline.errors import WireError

Bodies: TypeAlias = "AsyncGenerator[tuple[Kind, Body], None]"
"""Kind and body of all that a call sends back: any number of items, then its result or error."""


class FrameCoding:
    """Axon frames: every type of docs/wire.md, tensors without copies."""

    content_type = AXON_TYPE

    def decode_call(self, content: memoryview, limits: Limits) -> tuple[list[Any], dict[str, Any]]:
        """Decode the positional and named arguments; raises `WireError`."""
        value = wire.decode_as(Kind.CALL, content, limits)
        if not (isinstance(value, list) and len(value) == 2):
            raise WireError("a call is a list of two: positional and named arguments")
        return _checked_arguments(*value)

    def encode(self, kind: Kind, value: object, limits: Limits) -> Body:
        """Encode one item, result or error; raises `WireError` for a value that has no form here."""
        return wire.encode(kind, value, limits)


class JsonCoding:
    """JSON: an array is positional arguments, an object named ones; one line of JSON comes back per body."""

    content_type = JSON_TYPE

    def decode_call(self, content: memoryview, limits: Limits) -> tuple[list[Any], dict[str, Any]]:
        if content.nbytes > limits.max_meta_bytes:
            raise WireError(f"{content.nbytes} bytes of JSON; {limits.max_meta_bytes} are allowed")
        text = bytes(content)
        if text.count(b",") + text.count(b"[") + text.count(b"{") > limits.max_items:
            raise WireError(f"more than {limits.max_items} items")
        try:
            value = msgspec.json.decode(text) if text else []
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise WireError(
                f"the body is not JSON ({error}); send an array of positional arguments or an object of named ones"
            ) from error
        return _checked_arguments([], value) if isinstance(value, dict) else _checked_arguments(value, {})

    def encode(self, kind: Kind, value: object, limits: Limits) -> Body:
        try:
            return [msgspec.json.encode({kind.name.lower(): value}, enc_hook=tensors.to_list) + b"\n"]
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise WireError(f"the result cannot be sent as JSON: {error}") from error


def _checked_arguments(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    if not isinstance(args, list) or not isinstance(kwargs, dict) or not all(isinstance(k, str) for k in kwargs):
        raise WireError("positional arguments are a list, named ones an object with strings as keys")
    return args, kwargs


Coding: TypeAlias = FrameCoding | JsonCoding
_FRAMES, _JSON = FrameCoding(), JsonCoding()


def coding_of(content_type: str | None) -> Coding:
    """Frames if the caller says so; JSON for everything else, such as what curl sends by default."""
    return _FRAMES if content_type == AXON_TYPE else _JSON
