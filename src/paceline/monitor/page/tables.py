"""Tables of the report of a run: learners, rounds, happenings, settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from paceline.events import Event
from paceline.monitor.figures import Happening, LearnerRound, LearnerSummary, RoundSummary
from paceline.monitor.page.frame import section
from paceline.monitor.page.markup import Child, Markup, element
from paceline.monitor.wording import printable, say_count, say_event, say_known, say_names, say_ratio, say_seconds
from paceline.topologies.events import LearnerJoined
from paceline.topologies.gossip.events import PeerStarted

MAX_HAPPENINGS = 300
MAX_ROWS = 200
NONE = "–"


class Column(msgspec.Struct, frozen=True):
    """A heading, and whether numbers stand below it."""

    heading: str
    is_number: bool = True


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Child]]) -> Markup:
    """A table whose first column names the row; it scrolls in its box where it does not fit."""

    def style(column: Column) -> str | None:
        return "number" if column.is_number else None

    head = (element("th", column.heading, scope="col", class_=style(column)) for column in columns)
    body = (
        element(
            "tr",
            element("th", row[0], scope="row", class_=style(columns[0])),
            *(element("td", cell, class_=style(column)) for column, cell in zip(columns[1:], row[1:], strict=True)),
        )
        for row in rows
    )
    whole = element(
        "table", element("caption", caption), element("thead", element("tr", *head)), element("tbody", *body)
    )
    return element("div", whole, class_="card scroll", tabindex="0", role="region", aria_label=caption)


def left_out(num_rows: int, file: str = "events.jsonl") -> str:
    """The end of a caption that says so if a table has only the first `MAX_ROWS`, and where the others are."""
    return f" ({num_rows - MAX_ROWS:,} more in {file})" if num_rows > MAX_ROWS else ""


def end_of(left_because: str | None) -> str:
    """Whether a learner was there at the end, or why it was not."""
    return "there" if left_because is None else f"left: {printable(left_because)}"


def learners_table(learners: Sequence[LearnerSummary], caption: str) -> Markup:
    """What each learner did and what became of it; times are means of its rounds."""
    columns = [
        *(Column("learner", is_number=False), Column("rounds"), Column("shards / round")),
        *(Column("local epochs / round"), Column("samples")),
        *(Column("use of deadline"), Column("download"), Column("train"), Column("upload"), Column("late")),
        *(Column("refused"), Column("at the end", is_number=False)),
    ]
    return table(caption, columns, map(_learner_row, learners))


def _learner_row(learner: LearnerSummary) -> list[Child]:
    num_rounds = len(learner.rounds)
    told = [work for work in learner.rounds if work.is_told]
    return [
        element("bdi", printable(learner.name)),
        str(num_rounds),
        f"{learner.num_shards / num_rounds:.1f}" if num_rounds else NONE,
        f"{sum(work.local_epochs for work in learner.rounds) / num_rounds:.3g}" if num_rounds else NONE,
        f"{learner.num_samples:,}",
        say_known(learner.deadline_use, say_ratio),
        *(_mean_seconds(told, phase) for phase in ("download_seconds", "train_seconds", "upload_seconds")),
        str(learner.num_late),
        str(learner.num_refused),
        end_of(learner.left_because),
    ]


def profiles_table(learners: Sequence[LearnerSummary], caption: str) -> Markup:
    """What the learners that told it had measured of themselves."""
    columns = [
        *(Column("learner", is_number=False), Column("benchmark took"), Column("trains")),
        *(Column("down"), Column("up"), Column("latency")),
    ]
    rows = (
        [
            element("bdi", printable(learner.name)),
            say_known(learner.benchmark_seconds, say_seconds),
            _rate(learner.profile, "train", 1, "samples/s"),
            _rate(learner.profile, "down", 1e6, "MB/s"),
            _rate(learner.profile, "up", 1e6, "MB/s"),
            _latency(learner.profile),
        ]
        for learner in learners
        if learner.profile
    )
    return table(caption, columns, rows)


def _mean_seconds(works: Sequence[LearnerRound], phase: str) -> str:
    known = [seconds for seconds in (getattr(work, phase) for work in works) if seconds is not None]
    return say_seconds(sum(known) / len(known)) if known else NONE


def _rate(profile: dict[str, Any] | None, key: str, unit: float, label: str) -> str:
    """A rate of a profile with its spread; a profile comes from a device and may hold anything."""
    rate = profile.get(key) if profile else None
    per_second, spread = (rate.get("per_second"), rate.get("spread")) if isinstance(rate, dict) else (None, None)
    if not isinstance(per_second, int | float):
        return NONE
    digits = 0 if per_second >= 100 * unit else 2
    margin = f" ± {100 * spread:.0f} %" if isinstance(spread, int | float) and spread >= 0.005 else ""
    return f"{per_second / unit:,.{digits}f} {label}{margin}"


def _latency(profile: dict[str, Any] | None) -> str:
    seconds = profile.get("latency_seconds") if profile else None
    return f"{1000 * seconds:.1f} ms" if isinstance(seconds, int | float) else NONE


def rounds_table(rounds: Sequence[RoundSummary]) -> Markup:
    """A row per closed round."""
    columns = [
        *(Column("round"), Column("opened at"), Column("took"), Column("deadline"), Column("truancy")),
        *(Column("learners"), Column("updates"), Column("shards"), Column("samples")),
        *(Column("staleness"), Column("fulfilment"), Column("occupancy"), Column("loss"), Column("accuracy")),
        Column("late", is_number=False),
    ]
    rows = (
        [
            str(closed.round),
            say_seconds(closed.opened_at),
            say_seconds(closed.seconds),
            say_seconds(closed.deadline_seconds),
            say_ratio(closed.truancy, signed=True),
            f"{closed.num_learners:,}",
            f"{closed.num_updates:,}",
            f"{closed.num_shards:,}",
            f"{closed.num_samples:,}",
            f"{closed.staleness:.3g}",
            say_ratio(closed.fulfilment),
            say_ratio(closed.occupancy),
            say_known(closed.loss, "{:.4f}".format),
            say_known(closed.accuracy, say_ratio),
            say_names(closed.late) or NONE,
        ]
        for closed in rounds
    )
    return table("A row per closed round", columns, rows)


def happenings_table(happenings: Sequence[Happening], caption: str) -> Markup:
    """What happened, and when; the joins are left out first if there are very many."""
    shown, num_left_out = _most_telling(happenings)
    rows = [[say_seconds(one.event.at), say_event(one.event, one.job)] for one in shown]
    if num_left_out:
        caption += f" ({say_count(num_left_out, 'more line')} in events.jsonl)"
    return table(caption, [Column("at"), Column("what happened", is_number=False)], rows)


def _most_telling(happenings: Sequence[Happening]) -> tuple[list[Happening], int]:
    is_told = [not isinstance(one.event, LearnerJoined | PeerStarted) for one in happenings]
    num_joins = max(MAX_HAPPENINGS - sum(is_told), 0)
    shown: list[Happening] = []
    for one, told in zip(happenings, is_told, strict=True):
        num_joins -= not told
        if len(shown) < MAX_HAPPENINGS and (told or num_joins >= 0):
            shown.append(one)
    return shown, len(happenings) - len(shown)


def happenings_section(happenings: Sequence[Event], heading: str, caption: str) -> Markup | None:
    """What happened in one run; None if nothing did."""
    told = [Happening(event=event) for event in happenings]
    return section(heading, happenings_table(told, caption)) if told else None


def settings_section(kind: str, settings: dict[str, Any], versions: dict[str, Any]) -> Markup:
    """What was asked for, and what it was made with; `kind` is how the former is called."""
    tables = element("div", settings_table(kind, settings), settings_table("Versions", versions), class_="two")
    return section(f"{kind} and versions", tables)


def settings_table(caption: str, settings: dict[str, Any]) -> Markup:
    """Nested settings as dotted keys with their values."""
    rows = [[element("code", printable(key)), printable(value)] for key, value in _flat(settings)]
    return table(caption, [Column("key", is_number=False), Column("value", is_number=False)], rows)


def _flat(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else msgspec.json.encode(value).decode()
