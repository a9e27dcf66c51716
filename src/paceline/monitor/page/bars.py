"""Bars of time per phase against the deadline, one row per learner, for any round or for the mean of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from paceline.monitor.figures import LearnerRound, LearnerSummary, RoundSummary
from paceline.monitor.page.markup import Markup, element, embedded_json, percent
from paceline.monitor.wording import printable, say_ratio, say_seconds

PHASES: dict[str, str] = {
    "wait": "before start",
    "benchmark": "benchmark",
    "download": "download",
    "train": "train",
    "upload": "upload",
    "working": "working (phases not told)",
    "lost": "no update came",
    "idle": "idle",
}
BUSY = frozenset({"benchmark", "download", "train", "upload", "working"})
MAX_LEARNER_ROUNDS = 40_000  # about 1.5 MB of the page
_MAX_DEADLINES_SHOWN = 1.5

Stretches: TypeAlias = tuple[float, ...]
"""Seconds per phase, in the order of `PHASES`."""


class BarRow(msgspec.Struct, frozen=True, kw_only=True):
    """A learner's bars.

    Attributes:
        rounds: stretches by round.
        mean: over the rounds in which its update came, or over all if none ever came; None if it had no round.
        benchmark_seconds: None if not told.
        range: the earliest and latest arrival of an update, as ratios of the deadline; None if none came.
    """

    name: str
    rounds: dict[int, Stretches]
    mean: Stretches | None
    benchmark_seconds: float | None
    range: tuple[float, float] | None


def stretches_of(work: LearnerRound, closed: RoundSummary) -> Stretches:
    """How a learner spent a closed round: waiting at first, working, and idle until the round closed."""
    wait = max(work.start_seconds, 0.0)
    download = work.download_seconds or 0.0
    train = work.train_seconds or 0.0
    upload = work.upload_seconds or 0.0
    working = max(work.busy_seconds or 0.0, 0.0) if not work.is_told else 0.0
    rest = max(closed.seconds - wait - download - train - upload - working, 0.0)
    lost, idle = (rest, 0.0) if work.arrival_seconds is None else (0.0, rest)
    return (wait, 0.0, download, train, upload, working, lost, idle)


def bar_row(learner: LearnerSummary, closed: dict[int, RoundSummary]) -> BarRow:
    """The bars of a learner in the rounds that are closed."""
    works = [work for work in learner.rounds if work.round in closed]
    stretches = {work.round: stretches_of(work, closed[work.round]) for work in works}
    arrivals = {
        work.round: work.arrival_seconds / closed[work.round].deadline_seconds
        for work in works
        if work.arrival_seconds is not None
    }
    return BarRow(
        name=learner.name,
        rounds=stretches,
        mean=mean_stretches(stretches[number] for number in arrivals or stretches),
        benchmark_seconds=learner.benchmark_seconds,
        range=(min(arrivals.values()), max(arrivals.values())) if arrivals else None,
    )


def mean_stretches(stretches: Iterable[Stretches]) -> Stretches | None:
    """The mean of each phase; None without any."""
    columns = list(zip(*stretches, strict=True))
    return tuple(sum(column) / len(column) for column in columns) if columns else None


def draw_bars(rows: Sequence[BarRow], rounds: Sequence[RoundSummary], note: str) -> Markup:
    """The bars with legend and round picker, showing the mean, and the data for the page's script to show others."""
    deadline_seconds = sum(closed.deadline_seconds for closed in rounds) / len(rounds)
    ends = [row.range[1] for row in rows if row.range]
    scale = min(max(1.02, *ends, 1.0) * 1.03, _MAX_DEADLINES_SHOWN)
    pickable = rounds[-max(MAX_LEARNER_ROUNDS // max(len(rows), 1), 1) :]
    body = [_row(row, deadline_seconds, scale) for row in rows]
    head = element(
        "tr",
        element("th", "learner", scope="col"),
        element("th", _axis(scale), scope="col"),
        element("th", "busy", scope="col", class_="number"),
    )
    caption = element("caption", f"Mean of all rounds; deadline {say_seconds(deadline_seconds)}", id="bars-caption")
    table = element("table", caption, element("thead", head), element("tbody", *body), class_="bars", id="bars")
    top = element("figcaption", element("b", "Time per phase and learner"), element("span", note))
    data = {
        "phases": list(PHASES.values()),
        "busy": [phase in BUSY for phase in PHASES],
        "scale": scale,
        "deadline": {"mean": deadline_seconds, "benchmark": deadline_seconds}
        | {str(closed.round): closed.deadline_seconds for closed in pickable},
        "rows": [_views(row, pickable) for row in rows],
    }
    return element(
        "figure",
        top,
        _legend(rows),
        _picker(pickable),
        table,
        embedded_json("bars-data", data),
        class_="card",
        id="time",
    )


def _axis(scale: float) -> Markup:
    return element(
        "svg",
        element("text", "round opens", x="0", y="14"),
        element("text", "deadline", class_="end", x=percent(1 / scale), dx="4", y="14"),
        width="100%",
        height="18",
    )


def _views(row: BarRow, rounds: Sequence[RoundSummary]) -> dict[str, list[float]]:
    views = {str(closed.round): row.rounds[closed.round] for closed in rounds if closed.round in row.rounds}
    if row.mean is not None:
        views["mean"] = row.mean
    if row.benchmark_seconds is not None:
        views["benchmark"] = tuple(row.benchmark_seconds if phase == "benchmark" else 0.0 for phase in PHASES)
    return {key: [float(f"{seconds:.4g}") for seconds in stretches] for key, stretches in views.items()}


def _row(row: BarRow, deadline_seconds: float, scale: float) -> Markup:
    name = printable(row.name)
    stretches = row.mean or (0.0,) * len(PHASES)
    full_seconds = scale * deadline_seconds
    marks, start = [], 0.0
    for (phase, label), seconds in zip(PHASES.items(), stretches, strict=True):
        left, right = (min(place / full_seconds, 1.0) for place in (start, start + seconds))
        title = element("title", f"{label}: {say_seconds(seconds)}")
        part = element(
            "rect", class_=f"phase {phase}", x=percent(left), width=percent(right - left), y="4", height="20"
        )
        marks.append(element("g", title, part, class_="tip"))
        start += seconds
    if row.range:
        places = {"x1": percent(min(row.range[0] / scale, 1.0)), "x2": percent(min(row.range[1] / scale, 1.0))}
        said = f"updates came from {say_ratio(row.range[0])} to {say_ratio(row.range[1])} of the deadline"
        line = element("line", y1="50%", y2="50%", **places)
        marks.append(element("g", element("title", said), line, class_="tip range"))
    at_deadline = percent(1 / scale)
    marks.append(element("line", class_="deadline", x1=at_deadline, x2=at_deadline, y1="0", y2="100%"))
    label = ", ".join(f"{PHASES[phase]} {say_seconds(s)}" for phase, s in zip(PHASES, stretches, strict=True) if s)
    drawing = element("svg", *marks, role="img", aria_label=f"{name}: {label or 'no round'}", width="100%", height="28")
    busy = sum(seconds for phase, seconds in zip(PHASES, stretches, strict=True) if phase in BUSY)
    said = f"{say_seconds(busy)} · {say_ratio(busy / deadline_seconds)}" if row.mean else "–"
    return element(
        "tr",
        element("th", element("bdi", name), scope="row", title=name),
        element("td", drawing),
        element("td", said, class_="number"),
    )


def _legend(rows: Sequence[BarRow]) -> Markup:
    seen = (stretches for row in rows for stretches in row.rounds.values())
    used = {phase for stretches in seen for phase, seconds in zip(PHASES, stretches, strict=True) if seconds}
    used.discard("wait")  # looks like idle
    if any(row.benchmark_seconds for row in rows):
        used.add("benchmark")
    entries = [
        element(
            "li",
            element(
                "svg",
                element("rect", class_=f"phase {phase}", width="100%", height="100%"),
                width="14",
                height="14",
                aria_hidden="true",
            ),
            label,
        )
        for phase, label in PHASES.items()
        if phase in used
    ]
    return element("ul", *entries, class_="legend")


def _picker(rounds: Sequence[RoundSummary]) -> Markup:
    options: list[Any] = [("mean", "mean of all rounds"), ("benchmark", "benchmark, once")]
    options += [(str(closed.round), f"round {closed.round}") for closed in rounds]
    choice = element("select", *(element("option", label, value=value) for value, label in options), id="round-picker")
    return element(
        "div",
        element("label", "Show", for_="round-picker"),
        choice,
        element("button", "‹", type="button", id="round-earlier", aria_label="earlier round"),
        element("button", "›", type="button", id="round-later", aria_label="later round"),
        class_="picker script-only",
    )
