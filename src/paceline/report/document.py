"""Makes the one HTML document of all pages: styles, scripts and data inline, and nothing else let in."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.resources
import re
from collections.abc import Mapping
from typing import Any

import msgspec

_MAIN = "main.mjs"
# What modules may write, one to a line and without renaming; frontend/eslint.config.js holds them to it.
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([\w-]+\.mjs)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export const (\w+)", re.MULTILINE)


def make_document(title: str, boot: Mapping[str, Any], plain: str = "") -> str:
    """Embed what a page starts from in a document, which lets nothing in but its own scripts and styles.

    Args:
        boot: `content` of a finished page, or where the browser has it from: `stream`, `runs`, `login`. A page with
            its content needs no network and is let reach none; any other reaches the origin that it came from.
        plain: HTML that browsers without scripts show.
    """
    style = _file("vendor/uPlot.min.css") + _file("style.css")
    scripts = (_file("vendor/uPlot.iife.min.js"), join_modules())
    connect = "" if "content" in boot else " connect-src 'self';"
    policy = (
        f"default-src 'none';{connect} style-src {_hash(style)}; script-src {' '.join(map(_hash, scripts))}; "
        "base-uri 'none'; form-action 'none'"
    )
    # Inside a script element only "<" can end it or start a comment; JSON may write it as an escape.
    data = msgspec.json.encode(boot).decode().replace("<", "\\u003c")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{html.escape(title)}</title>'
        f"<style>{style}</style></head>\n"
        f'<body><main id="report"></main><noscript><main>{plain}</main></noscript>\n'
        f'<script type="application/json" id="content">{data}</script>\n'
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body></html>\n"
    )


def join_modules(main: str = _MAIN) -> str:
    """Join a module of ``web/`` and all that it imports to one script: a function each, after those that it needs."""
    joined: dict[str, str] = {}

    def add(name: str) -> None:
        if name in joined:
            return
        text = _file(name)
        joined[name] = ""  # a module that needs itself in the end gets nothing, and the browser says so
        for _, needed in _IMPORT.findall(text):
            add(needed)
        del joined[name]
        body = _EXPORT.sub(r"const \1", _IMPORT.sub(r'const \1 = modules["\2"];', text))
        joined[name] = (
            f'modules["{name}"] = (() => {{\n{body}return {{ {", ".join(_EXPORT.findall(text))} }};\n}})();\n'
        )

    add(main)
    return '(() => {\n"use strict";\nconst modules = {};\n' + "".join(joined.values()) + "})();\n"


def _file(name: str) -> str:
    return (importlib.resources.files("paceline.report") / "web" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
