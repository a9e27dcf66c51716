"""What every page has: the head with its policy, a header, cards with the main figures."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Iterable, Sequence

from paceline.monitor.page.markup import Child, Markup, element
from paceline.monitor.wording import printable, say_known, say_ratio, say_seconds


def make_document(title: str, sections: Iterable[Markup | None]) -> str:
    """The whole page: it needs no other file and no network, and lets nothing in but its own script.

    Sections that are None are left out.
    """
    style, script = (_file(file) for file in ("style.css", "script.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", printable(title)),
        element("style", style),
    )
    body = element("body", _patterns(), element("main", *sections), element("script", script))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def header(kind: str, name: str, ended_because: str | None, parts: Sequence[str]) -> Markup:
    """What the page is about, and whether it is over.

    Args:
        kind: of what is shown.
        ended_because: None if no end was recorded.
        parts: what else is worth a word, as text that can be shown.
    """
    if ended_because is not None:
        state, label = "done", f"finished: {printable(ended_because)}"
    else:
        state, label = "open", "not finished: no end was recorded"
    return element(
        "header",
        element("p", f"Paceline {kind}", class_="over"),
        element("h1", printable(name)),
        element("p", element("span", label, class_=f"state {state}"), " ", " · ".join(parts)),
    )


def section(heading: str, *content: Child, about: str | None = None) -> Markup:
    """A part of the page under its heading."""
    return element("section", element("h2", heading), element("p", about) if about else None, *content)


def facts(cards: Iterable[tuple[str, str, str]]) -> Markup:
    """Cards of a label, a figure, and what more there is to say."""
    shown = [
        element("div", element("dt", label), element("dd", element("b", value), element("span", more)), class_="card")
        for label, value, more in cards
    ]
    return element("dl", *shown, class_="facts")


def result_card(accuracy: float | None, loss: float | None, *, is_over: bool) -> tuple[str, str, str]:
    """The card of what was learned."""
    label = "final accuracy" if is_over else "accuracy so far"
    return label, say_known(accuracy, say_ratio), f"loss {loss:.3f}" if loss is not None else ""


def time_card(seconds: float, clock: str | None) -> tuple[str, str, str]:
    """The card of how long it took; `clock` is None if nothing was recorded."""
    return "time", say_seconds(seconds), f"on the {clock} clock" if clock else ""


def _file(name: str) -> Markup:
    return Markup(importlib.resources.files(__package__).joinpath(name).read_text("utf-8"))


def _patterns() -> Markup:
    """Hatchings that the style sheet refers to, so that nothing is told by colour alone."""
    patterns = [
        element(
            "pattern",
            element("rect", class_=f"{name}-back", width="6", height="6"),
            element("path", class_=f"{name}-line", d="M0 0V6"),
            id=name,
            width="6",
            height="6",
            patternUnits="userSpaceOnUse",
            patternTransform=f"rotate({angle})",
        )
        for name, angle in (("hatch-bad", 45), ("hatch-upload", -45), ("hatch-working", 90))
    ]
    return element("svg", element("defs", *patterns), class_="defs", width="0", height="0", aria_hidden="true")
