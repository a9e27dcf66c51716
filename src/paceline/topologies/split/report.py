"""How a split run is reported: the sections of its page over its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paceline.topologies.reporting.base import Reporting, Summary
from paceline.topologies.reporting.energy_and_bytes import usage_section, usage_tiles
from paceline.topologies.reporting.fleet_now import GONE
from paceline.topologies.reporting.formatting import describe_after, format_bytes, format_count
from paceline.topologies.reporting.sections import AnySection, Bars, Gantt, Graph, Grid, Line, TableSection, Tile, Tiles
from paceline.topologies.reporting.shared import happenings_section, learning_lines, result_tile
from paceline.topologies.reporting.tables import Table
from paceline.topologies.split.events import TRUNK
from paceline.topologies.split.progress import SplitProgress
from paceline.topologies.split.tables import EPOCHS_TABLE, MASKED, NODES_TABLE, SplitTables

_EPOCH_COLUMNS = (
    *("epoch", "at", "num_sources", "num_steps", "num_samples", "num_masked", "seconds", "test_seconds"),
    *("bytes_moved", "joules", "train_loss", "loss"),
)


class SplitReporting(Reporting):
    """Reports a split run."""

    kind = "split run"
    recorded = (EPOCHS_TABLE, NODES_TABLE)

    def builder(self, settings: dict[str, Any]) -> SplitTables:
        return SplitTables(settings)

    def progress(self) -> SplitProgress:
        return SplitProgress()

    def conclusion(self, result: Mapping[str, Any], summary: Summary) -> Iterable[str]:
        return [describe_after(summary.metrics, f"{result['epochs']} epochs")]

    def notices(self, tables: Mapping[str, Table]) -> list[str]:
        reporting = {*tables["spent"].values("learner")}
        if not reporting or reporting >= {*tables["totals"].values("learner")}:
            return []
        return [
            "Sources that join over the network keep to themselves what they compute and send: the page shows what the "
            "trunk sees of it."
        ]

    def sections(self, tables: Mapping[str, Table]) -> list[AnySection]:
        (summary,) = tables["summary"].records()
        sections: list[AnySection] = [_tiles(summary, result_tile(tables["summary"])), _graph(tables)]
        if tables["epochs"].rows:
            best = "" if summary["best_epoch"] is None else f"best in epoch {summary['best_epoch']}"
            sections += learning_lines(
                tables["progress"], "epoch", ("at", "trained"), lambda name: best, ("loss", "train_loss")
            )
        if tables["spent"].rows:
            sections += [*_time(), *_network(summary)]
        if summary["bytes_moved"] and tables["epochs"].rows:
            sections.append(_bytes())
        return [*sections, *_sources(tables, summary), *_tables(tables, summary)]


def _graph(tables: Mapping[str, Table]) -> Graph:
    (cut,) = tables["summary"].values("cut")
    of_trunk = [one for one in tables["spent"].records() if one["learner"] == TRUNK]
    passed = [f"cut before {cut}"] if cut else []
    if of_trunk:
        came, went = (format_bytes(of_trunk[-1][name]) for name in ("bytes_received", "bytes_sent"))
        passed.append(f"{came} came through it in the last epoch, {went} went back")
    return Graph(
        title="The model and its cut",
        table="links",
        caption="Good sources are all there: training goes on without those that are masked.",
        note="; ".join(passed),
        start="start",
        end="end",
        weight="bytes_sent",
        nodes="model",
        node="learner",
        node_state="state",
        bad=(MASKED, GONE),
        level="level",
        node_details=("learner", "part", "state", "num_parameters"),
        details=("start", "end", "bytes_sent"),
    )


def _tiles(summary: dict[str, Any], result: Tile) -> Tiles:
    planned, epochs = summary["planned_epochs"], summary["epochs"]
    per_epoch = f"{format_bytes(summary['bytes_moved'] / epochs)} per epoch" if epochs else ""
    tiles = (
        result,
        Tile("epochs", f"of {planned:,}" if planned else ""),
        Tile("mean_seconds", "of training, the mean"),
        Tile("bytes_moved", per_epoch),
        Tile("num_samples", "in all epochs"),
        Tile("num_sources", f"{format_count(summary['num_masked'], 'input')} missing"),
        *(tile for tile in usage_tiles(summary) if tile.column != "bytes_sent"),
    )
    return Tiles(title="Summary", table="summary", tiles=tiles)


def _time() -> list[AnySection]:
    return [
        Bars(
            title="Time per epoch, by node",
            group="Time",
            table="spent",
            caption="The slowest node hardly waits; if all wait, the network is the bottleneck.",
            note="tests included",
            row="learner",
            parts=("compute", "wait", "rest"),
            pick="epoch",
        ),
        Grid(
            title="Computing per node and epoch",
            group="Time",
            table="spent",
            caption="Cells near 100 are good: the node computes; low ones wait for others or the network.",
            note="per cent of its time",
            row="learner",
            x="epoch",
            value="share",
            details=("learner", "epoch", "compute", "wait", "share", "bytes_sent", "bytes_received"),
        ),
    ]


def _network(summary: dict[str, Any]) -> list[AnySection]:
    shown: list[AnySection] = []
    if summary["bytes_moved"]:
        shown.append(
            Bars(
                title="Bytes by node",
                group="Network and energy",
                table="totals",
                caption="Good sources have bars alike; the trunk's is as long as all of theirs together.",
                note=f"{format_bytes(summary['bytes_moved'])} over the network",
                row="learner",
                parts=("bytes_sent", "bytes_received"),
                is_half=True,
            )
        )
    if summary["joules"]:
        shown.append(
            Bars(
                title="Energy by node",
                group="Network and energy",
                table="totals",
                caption="By the power model of each node; battery-powered sources should have the short bars.",
                row="learner",
                parts=("joules",),
                is_half=True,
            )
        )
    return shown


def _bytes() -> Line:
    return Line(
        title="Over the network per epoch",
        group="Network and energy",
        table="progress",
        caption="Less is better, and another cut may send less; it stays constant while the sources do.",
        note="from and to the trunk",
        x="epoch",
        y=("bytes_moved",),
        shape="columns",
        details=("epoch", "bytes_moved", "joules"),
    )


def _sources(tables: Mapping[str, Table], summary: dict[str, Any]) -> list[AnySection]:
    shown: list[AnySection] = [
        Gantt(
            title="Who was there",
            group="Sources",
            table="presence",
            caption="Good lanes reach from start to end; hatched, training went on without a source.",
            row="learner",
            start="start",
            end="end",
            state="state",
            looks={"there": "back", "masked": "hatched"},
            details=("learner", "state", "start", "end", "epoch", "step", "reason"),
        )
    ]
    changing = {
        "num_sources": ("Sources per epoch", "The more sources take part, the better the model sees."),
        "num_masked": ("Inputs missing per epoch", "Good epochs miss none."),
        "junction": (
            "Parameters of the junction per epoch",
            "Good when it settles; it grows with each source that joins for good.",
        ),
    }
    for column, (title, caption) in changing.items():
        if len(set(tables["progress"].values(column))) > 1:
            details = ("epoch", column, "num_sources", "num_masked", "num_steps")
            more: dict[str, Any] = {"table": "progress", "x": "epoch", "y": (column,), "shape": "columns"}
            shown.append(Line(title=title, group="Sources", caption=caption, details=details, is_half=True, **more))
    return shown


def _tables(tables: Mapping[str, Table], summary: dict[str, Any]) -> list[AnySection]:
    merged = "Each source has a branch; the junction merges what they put out, and the trunk has the rest."
    whole = ("whole", "", "", summary["num_parameters"])
    chosen = "Where the model could be cut; the cut with the shortest expected epoch is chosen."
    means = "Times are means over a node's epochs; the slowest node should hardly wait."
    good = "Good epochs miss no inputs, and the loss falls."
    shown = (*_EPOCH_COLUMNS, *(column.name for column in tables["progress"].metrics))
    used = usage_section(tables, "in their epochs, and to hand over what they learned")
    return [
        TableSection(title="Parts", group="Model", table="parts", caption=merged, total=whole, is_half=True),
        TableSection(title="Cuts", group="Model", table="cuts", caption=chosen, is_half=True),
        TableSection(title="Nodes", group="Nodes", table="totals", caption=means),
        *(used if tables["totals"].rows else []),
        TableSection(title="Epochs", group="Epochs", table="progress", caption=good, columns=shown, file="epochs.csv"),
        happenings_section("A quiet run has only joins here."),
    ]
