"""Makes HTML and SVG such that text is always escaped."""

from __future__ import annotations

import html
from typing import TypeAlias

import msgspec

_VOID = frozenset({"br", "meta", "hr", "input", "link"})


class Markup(str):
    """Text that is markup already; only this module and files of this package make it."""

    __slots__ = ()


Child: TypeAlias = "str | Markup | None"


def element(name: str, /, *children: Child, **attributes: object) -> Markup:
    """An element; children that are not `Markup` are escaped, None is left out.

    Attributes are named with an underscore for each hyphen, and one at the end where Python has the word (``class_``).
    None and False leave an attribute out, True gives it without a value.
    """
    start = name + "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{start}>" if name in _VOID else f"<{start}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """Children one after the other."""
    return Markup("".join(_escaped(child) for child in children if child is not None))


def embedded_json(name: str, value: object) -> Markup:
    """Data for the page's script, in an element of this id."""
    # Inside a script element only "<" can end it or start a comment; JSON may write it as an escape.
    text = msgspec.json.encode(value).decode().replace("<", "\\u003c")
    return element("script", Markup(text), id=name, type="application/json")


def number(value: float) -> str:
    """A coordinate, short."""
    return f"{value:.6g}" if abs(value) >= 0.001 else "0"


def percent(ratio: float) -> str:
    """A coordinate relative to the drawing's width or height."""
    return number(100 * ratio) + "%"


def _escaped(child: str) -> str:
    return child if isinstance(child, Markup) else html.escape(child)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{html.escape(number(value) if isinstance(value, float) else str(value))}"'
