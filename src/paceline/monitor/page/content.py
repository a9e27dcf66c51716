"""The page of a run: which parts it has, and what they say."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from typing import Any

from paceline.monitor.figures import Summary
from paceline.monitor.page.markup import Markup, element
from paceline.monitor.page.plots import (
    allocation_section,
    learning_section,
    of_all,
    section,
    shown_learners,
    time_section,
    truancy_section,
)
from paceline.monitor.page.tables import happenings_table, learners_table, profiles_table, rounds_table, settings_table
from paceline.monitor.wording import printable, say_count, say_known, say_ratio, say_seconds, setting


def make_page(name: str, summary: Summary, job: dict[str, Any], versions: dict[str, Any]) -> str:
    """The whole page: it needs no other file and no network, and lets nothing in but its own script."""
    style, script = (_file(file) for file in ("style.css", "script.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{printable(name)} – Paceline run"),
        element("style", style),
    )
    body = element(
        "body", _patterns(), element("main", *_sections(name, summary, job, versions)), element("script", script)
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _file(name: str) -> Markup:
    return Markup(importlib.resources.files(__package__).joinpath(name).read_text("utf-8"))


def _sections(name: str, summary: Summary, job: dict[str, Any], versions: dict[str, Any]) -> list[Markup]:
    sections = [_header(name, summary, job), _facts(summary, job)]
    if not summary.rounds:
        sections.append(element("p", "No round has closed yet, so there is nothing to plot.", class_="card empty"))
    else:
        sections.append(learning_section(summary.rounds))
        if summary.learners:
            sections += [time_section(summary), allocation_section(summary)]
        sections.append(truancy_section(summary))
    if summary.learners:
        shown = shown_learners(summary)
        tables = [learners_table(shown, f"What they did{of_all(summary)}")]
        if any(learner.profile for learner in shown):
            tables.append(profiles_table(shown, f"What was measured of them{of_all(summary)}"))
        sections.append(section("Learners", *tables))
    if summary.rounds:
        sections.append(section("Rounds", rounds_table(summary.rounds)))
    if summary.happenings:
        sections.append(section("Who came, left and was refused", happenings_table(summary)))
    made = element("div", settings_table("Job", job), settings_table("Versions", versions), class_="two")
    return [*sections, section("Job and versions", made)]


def _header(name: str, summary: Summary, job: dict[str, Any]) -> Markup:
    if summary.ended is not None:
        state, label = "done", f"finished: {summary.ended.reason}"
    else:
        state, label = "open", "not finished: no end was recorded"
    parts = [
        f"{_called(job, 'model')} on {_called(job, 'data')}",
        f"shares by {_called(job, 'allocation')}",
        f"{summary.started.clock} clock" if summary.started else "nothing recorded",
    ]
    return element(
        "header",
        element("p", "Paceline run", class_="over"),
        element("h1", printable(name)),
        element("p", element("span", label, class_=f"state {state}"), " ", " · ".join(parts)),
    )


def _facts(summary: Summary, job: dict[str, Any]) -> Markup:
    num_rounds = setting(job, "job", "rounds")
    late = f"{summary.num_late / summary.num_learner_rounds:.1%}".replace("%", " %") if summary.num_late else "none"
    truancy_mean = summary.truancy_mean
    facts = [
        (
            "final accuracy" if summary.ended else "accuracy so far",
            say_known(summary.accuracy, say_ratio),
            f"loss {summary.loss:.3f}" if summary.loss is not None else "",
        ),
        ("rounds", f"{len(summary.rounds):,}", f"of {num_rounds:,}" if isinstance(num_rounds, int) else ""),
        (
            "truancy, most",
            say_known(summary.truancy_max, lambda ratio: say_ratio(ratio, signed=True)),
            f"mean {say_ratio(truancy_mean, signed=True)}" if truancy_mean is not None else "",
        ),
        ("late or missing", late, f"{summary.num_late:,} of {say_count(summary.num_learner_rounds, 'share')}"),
        ("use of the deadline", say_known(summary.deadline_use, say_ratio), "mean of the learners"),
        ("samples trained", f"{summary.num_samples:,}", f"by {say_count(len(summary.learners), 'learner')}"),
        (
            "time",
            say_seconds(summary.seconds),
            f"on the {summary.started.clock} clock" if summary.started else "",
        ),
        (
            "parameters",
            f"{summary.started.num_parameters:,}" if summary.started else "–",
            _called(job, "model"),
        ),
    ]
    cards = [
        element("div", element("dt", label), element("dd", element("b", value), element("span", more)), class_="card")
        for label, value, more in facts
    ]
    return element("dl", *cards, class_="facts")


def _called(job: dict[str, Any], section: str) -> str:
    """What the job calls its model, data or policy."""
    names = (setting(job, section, key) for key in ("name", "import", "path", "policy"))
    return next((printable(name) for name in names if isinstance(name, str)), "–")


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
