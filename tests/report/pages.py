"""Pages that never were: contents with every kind of section, as a server would make them."""

from __future__ import annotations

import math
import random

from paceline.report.page import PageContent
from paceline.topologies.reporting.sections import Fleet, Graph, Line, Log, TableSection, Tile, Tiles
from paceline.topologies.reporting.tables import Table, columns

PARTS = ("wait", "download", "train", "upload")
DEADLINE = 60.0


def page(sections, tables, *, state="running", clock="real", at=100.0, name="digits", kind="run", notices=()):
    """Make the content of a page from its sections and tables."""
    ended = "rounds done" if state == "ended" else None
    return PageContent(
        kind=kind,
        name=name,
        ended=ended,
        about="adaptive-dab, a deadline of 60 s",
        sections=sections,
        tables={table.name: table for table in tables},
        at=at,
        clock=clock,
        state=state,
        notices=list(notices),
    )


def fleet_table(num_devices, at=100.0, opened=70.0, names=None):
    """Make the table of a fleet in the middle of a round: most train, some are done, late, missing or gone."""
    chance = random.Random(7)
    table = Table(
        "now",
        columns(
            *("learner text device", "round count", "opened seconds", "doing text", "since seconds"),
            *("deadline_seconds seconds deadline", "expected seconds", "arrival seconds", "state text"),
            *("amount count shards", "num_samples count samples", *(f"{part} seconds" for part in PARTS)),
        ),
    )
    for number in range(num_devices):
        name = names[number] if names else f"device-{number:04}"
        pace, now = chance.uniform(0.4, 1.04), at - opened
        ends = [2.0, 6.0, DEADLINE * pace - 4, DEADLINE * pace]
        state, arrival = "training", None
        spent, doing, since = {}, None, 0.0
        for part, end in zip(PARTS, ends, strict=True):
            if now < end:
                doing, since = part, sum(spent.values())
                break
            spent[part] = end - sum(spent.values())
        else:
            state, arrival = "done", ends[-1]
        kind = number % 97
        if kind in (13, 57):
            state, doing = ("gone", None) if kind == 13 else ("missing", None)
        elif number % 211 == 5:
            state, arrival = "late", None
        elif kind == 31:
            state = "halted"
        elif kind == 90:
            state, doing, spent = "new", None, {}
        expected = None if state == "new" else ends[-1] * chance.uniform(0.9, 1.1)
        row = (name, 4, opened, doing, since, DEADLINE, expected, arrival, state, round(40 / pace), None)
        table.rows.append((*row, *(spent.get(part, 0.0) for part in PARTS)))
    return table


def fleet_section(**fields):
    """Make the section over `fleet_table`."""
    return Fleet(
        title="The fleet now",
        table="now",
        caption="A good lane ends just before the deadline line, where its mark had it.",
        row="learner",
        opened="opened",
        parts=PARTS,
        doing="doing",
        since="since",
        state="state",
        deadline="deadline_seconds",
        expected="expected",
        arrival="arrival",
        bad=("late", "missing", "gone"),
        counts=("round", "amount"),
        details=("learner", "state", "round", *PARTS),
        **fields,
    )


def log_page_parts(num_lines=40):
    """Make a log and its table."""
    table = Table("log", columns("at seconds time", "what text"))
    table.rows = [(2.5 * line, f"round {line} closed with {line % 5 + 1} updates") for line in range(num_lines)]
    return Log(title="Log", table="log", caption="Rounds should close one after another."), table


def curves_page_parts(runs=("a",), rounds=30):
    """Make curves over rounds, time or samples, with a run each, and their table."""
    table = Table("rounds", columns("run text", "round count", "at seconds time", "samples count", "accuracy ratio"))
    for number, run in enumerate(runs):
        for one in range(1, rounds + 1):
            accuracy = 0.98 - 0.9 * math.exp(-one / (3 + number))
            table.rows.append((run, one, (12.5 + number) * one, 1_800 * one * (number + 1), accuracy))
    section = Line(
        title="Accuracy",
        table="rounds",
        caption="Good curves rise quickly, then level off high.",
        x="round",
        other_x=("at", "samples"),
        y=("accuracy",),
        series="run" if len(runs) > 1 else None,
    )
    return section, table


def ring_page_parts(num_nodes=12):
    """Make a graph of peers in a ring who each hear two others."""
    nodes = Table("peers", columns("peer text", "state text", "epochs count"))
    nodes.rows = [(f"peer-{one}", "gone" if one == 3 else "ok", 10 + one % 3) for one in range(num_nodes)]
    links = Table("links", columns("from text", "to text", "messages count"))
    for one in range(num_nodes):
        links.rows += [(f"peer-{one}", f"peer-{(one + step) % num_nodes}", 5 * one + step) for step in (1, 4)]
    section = Graph(
        title="Who hears whom",
        table="links",
        caption="In a good graph every peer hears others, and none is cut off.",
        start="from",
        end="to",
        weight="messages",
        nodes="peers",
        node="peer",
        node_state="state",
        bad=("gone",),
    )
    return section, links, nodes


def levels_page_parts(num_sources=4):
    """Make a graph of a split model: branches, junction, trunk."""
    nodes = Table("model", columns("part text", "state text", "level count"))
    nodes.rows = [(f"camera-{one}", "masked" if one == 2 else "ok", 0) for one in range(num_sources)]
    nodes.rows += [("junction", "ok", 1), ("trunk", "ok", 2)]
    links = Table("edges", columns("from text", "to text", "sent bytes bytes sent"))
    links.rows = [(f"camera-{one}", "junction", 1_250_000 * (one + 1)) for one in range(num_sources)]
    links.rows.append(("junction", "trunk", 5_000_000))
    section = Graph(
        title="The model",
        table="edges",
        caption="All branches reach the junction; a masked one is left out.",
        start="from",
        end="to",
        weight="sent",
        nodes="model",
        node="part",
        node_state="state",
        bad=("masked",),
        level="level",
    )
    return section, links, nodes


def live_page(num_devices=40, names=None, **fields):
    """Make a live page with figures, a fleet, a curve and a log."""
    summary = Table("summary", columns("accuracy ratio", "rounds count"), [(0.91, 4)])
    tiles = Tiles(title="Summary", table="summary", tiles=(Tile("accuracy", "best 92 %"), Tile("rounds", "of 40")))
    curve, rounds = curves_page_parts()
    log, lines = log_page_parts()
    settings = TableSection(title="Lines", group="More", table="log", caption="All of them.")
    sections = [tiles, fleet_section(), curve, log, settings]
    return page(sections, [summary, fleet_table(num_devices, names=names), rounds, lines], **fields)


def listed_run(number, **fields):
    """Make the entry of a run in the list of a folder."""
    return {
        "name": f"run-{number}",
        "kind": "run",
        "about": "adaptive-dab, a deadline of 15 s",
        "state": "ended",
        "started_at": 1_790_000_000 + 3600 * number,
        "seconds": 240.0 + number,
        "ended": "rounds done",
        "share_done": 1.0,
        "metrics": {"accuracy": 0.9 + number / 1000},
        "loss": 0.3 - number / 1000,
        "error": None,
        **fields,
    }
