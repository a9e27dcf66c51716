"""How a gossip run is reported: the sections of its page over its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paceline.learning.scores import LOSS
from paceline.topologies.gossip.progress import GossipProgress
from paceline.topologies.gossip.tables import AVERAGE, EPOCHS_TABLE, MEAN, GossipTables
from paceline.topologies.reporting.base import Reporting, Summary
from paceline.topologies.reporting.energy_and_bytes import usage_section, usage_tiles
from paceline.topologies.reporting.fleet_now import GONE, NOW, fleet_section
from paceline.topologies.reporting.formatting import describe_metrics, format_bytes, format_count, format_names
from paceline.topologies.reporting.sections import AnySection, Gantt, Graph, Grid, Line, TableSection, Tile, Tiles
from paceline.topologies.reporting.shared import (
    LOSS_CAPTION,
    capitalised,
    happenings_section,
    last_figures,
    metric_caption,
    result_tile,
)
from paceline.topologies.reporting.tables import Table


class GossipReporting(Reporting):
    """Reports a gossip run."""

    kind = "gossip run"
    recorded = (EPOCHS_TABLE,)

    def builder(self, settings: dict[str, Any]) -> GossipTables:
        return GossipTables(settings)

    def progress(self) -> GossipProgress:
        return GossipProgress()

    def conclusion(self, result: Mapping[str, Any], summary: Summary) -> Iterable[str]:
        count = len(result["averaged"])
        average = f"the average of {count} {'peer' if count == 1 else 'peers'}"
        return [" – ".join([*filter(None, [", ".join(describe_metrics(summary.metrics))]), average])]

    def notices(self, tables: Mapping[str, Table]) -> list[str]:
        peers = tables["peers"].records()
        own = [one["learner"] for one in peers if one["epochs"]]
        if not own or len(own) == len(peers) or tables["consensus"].rows:
            return []
        return [
            f"This is the run as {format_names(own)} saw it: other peers keep their epochs to themselves, so that "
            "their work, and how far all are from their average, is not shown."
        ]

    def sections(self, tables: Mapping[str, Table]) -> list[AnySection]:
        (summary,) = tables["summary"].records()
        sections: list[AnySection] = [] if summary["ended"] else [fleet_section(tables[NOW])]
        sections.append(_tiles(summary, result_tile(tables["summary"])))
        if tables["epochs"].rows:
            sections += [*_learning(tables), _graph(), *_balance()]
        sections += _time(tables)
        if summary["bytes_sent"]:
            sections.append(_bytes(summary))
        caption = "Times are means over a peer's epochs; when the load is balanced, all peers take equally long."
        shown = _peer_columns(tables["peers"])
        sections.append(TableSection(title="Peers", group="Peers", table="peers", caption=caption, columns=shown))
        if tables["epochs"].rows:
            sections += usage_section(tables, "in their epochs")
        caption = "A row per epoch of all who ended it; the distance of the peers from their average stays small."
        sections.append(TableSection(title="Epochs", group="Epochs", table="all_epochs", caption=caption))
        return [*sections, *_missing(), happenings_section("A quiet run has only joins and its end here.")]


def _tiles(summary: dict[str, Any], result: Tile) -> Tiles:
    planned = summary["planned_epochs"]
    taken = f"{format_count(summary['num_taken_over'], 'part')} of failed peers taken over"
    tiles = (
        result,
        Tile("epochs", f"of {planned:,}" if planned else ""),
        Tile("mean_seconds", "mean of all peers"),
        Tile("mean_ratio", f"{summary['num_samples']:,} samples trained"),
        Tile("num_peers", f"{summary['num_joined']:,} came later, {summary['num_lost']:,} lost"),
        Tile("num_missing", taken),
        *usage_tiles(summary),
    )
    return Tiles(title="Summary", table="summary", tiles=tiles)


def _graph() -> Graph:
    return Graph(
        title="Who hears whom",
        group="Learning",
        table="heard",
        caption="Good peers hear some others in each epoch, and there is a way from each to each.",
        note="models taken in the last epochs",
        start="other",
        end="learner",
        weight="models",
        nodes="peers",
        node="learner",
        node_state="state",
        bad=(GONE,),
        node_details=("learner", "state", "epochs", "mean_ratio", "mean_seconds"),
    )


def _learning(tables: Mapping[str, Table]) -> list[AnySection]:
    learning, last = tables["learning"], last_figures(tables["summary"])
    charts = [(column, metric_caption(column)) for column in learning.metrics]
    charts += [(column, LOSS_CAPTION) for column in learning.columns if column.name == LOSS]
    details = ("model", "epoch", "at", *(column.name for column, _ in charts))
    sections: list[AnySection] = [
        Line(
            title=capitalised(column.title),
            group="Learning",
            table="learning",
            caption=f"{caption} The peers' own models stay close to the average.",
            note=last(column.name),
            x="at",
            other_x=("epoch",),
            y=(column.name,),
            series="model",
            bold=next((name for name in (AVERAGE, MEAN) if name in learning.values("model")), None),
            details=details,
            is_half=True,
        )
        for column, caption in charts
    ]
    if any(distances := tables["consensus"].values("distance")):
        sections.append(
            Line(
                title="Distance of the peers from their average",
                group="Learning",
                table="consensus",
                caption="Peers that agree stay close: the distance falls, or at least does not grow.",
                note=f"{distances[-1]:.3g} at last; over the length of the average, logarithmic",
                x="epoch",
                y=("distance",),
                is_log=True,
                details=("epoch", "distance", "num_learners"),
                is_half=len(charts) % 2 == 1,  # beside a curve that would be alone
            )
        )
    return sections


def _peer_columns(peers: Table) -> tuple[str, ...]:
    """Return the columns that are known of any peer, with the metrics after its name."""
    known = [column for column in peers.columns if column.name != "loss" and any(peers.values(column.name))]
    return tuple(column.name for column in sorted(known, key=lambda one: (one.name != "learner", not one.is_metric)))


def _balance() -> list[AnySection]:
    work = ("seconds", "num_samples", "ratio", "samples_per_second", "train_seconds", "exchange_seconds")
    cells: dict[str, Any] = {"group": "Balance", "table": "epochs", "row": "learner", "x": "epoch"}
    cells["details"] = ("learner", "epoch", *work)
    less = "When the load is balanced, slow peers train on less of their data."
    equal = "When the load is balanced, all epochs take equally long: the cells have one shade."
    kept, took = "Kept data per peer and epoch", "Seconds per peer and epoch"
    return [
        Grid(title=kept, caption=less, note="per cent of its own", value="ratio", **cells),
        Grid(title=took, caption=equal, note="from the end of the last one", value="seconds", **cells),
    ]


def _time(tables: Mapping[str, Table]) -> list[AnySection]:
    sections: list[AnySection] = []
    lanes: dict[str, Any] = {"group": "Time", "row": "learner", "start": "start", "end": "end"}
    if tables["phases"].rows:
        first = min(tables["phases"].values("epoch"))
        sections.append(
            Gantt(
                title="What peers did",
                table="phases",
                caption="Good lanes are mostly training; exchange includes waiting for others, and a gap is idle time.",
                note=f"from epoch {first} on" if first else "from the start",
                colour="phase",
                details=("learner", "phase", "epoch", "start", "end"),
                **lanes,
            )
        )
    presence = Gantt(
        title="Who was there",
        table="presence",
        caption="Good lanes reach from start to end; dark marks every other epoch, hatching marks time without "
        "the shared store.",
        state="state",
        looks={"there": "back", "epoch": "front", "without the store": "hatched"},
        details=("learner", "state", "epoch", "start", "end", "reason"),
        **lanes,
    )
    return [*sections, presence]


def _bytes(summary: dict[str, Any]) -> Line:
    return Line(
        title="Sent per epoch by all peers",
        group="Bytes",
        table="all_epochs",
        caption="Models and figures, as counted by the peers; less is better as long as the peers agree.",
        note=f"{format_bytes(summary['bytes_sent'])} in all",
        x="epoch",
        y=("bytes_sent",),
        shape="columns",
        details=("epoch", "bytes_sent", "bytes_received", "num_learners"),
    )


def _missing() -> list[TableSection]:
    group = "What was missing"
    failed = "Where more peers fail than is allowed, others train their data, if they have a copy of it."
    alone = "Without the store, peers use the figures that they send each other; a dash means to the end."
    return [
        TableSection(title="Data of peers that failed", group=group, table="missing", caption=failed),
        TableSection(title="Peers without the shared store", group=group, table="outages", caption=alone),
    ]
