"""How a run of one job is reported: the sections of its page over its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paceline.topologies.parallel.learners_now import notices_on
from paceline.topologies.parallel.live_table import RunLiveTable
from paceline.topologies.parallel.progress import RunProgress
from paceline.topologies.parallel.tables import METRICS_TABLE, PARTS, RunTables
from paceline.topologies.reporting.base import Reporting, Summary
from paceline.topologies.reporting.energy_and_bytes import usage_section, usage_tiles
from paceline.topologies.reporting.fleet_now import NOW, fleet_section
from paceline.topologies.reporting.formatting import (
    describe_after,
    format_bytes,
    format_count,
    format_known,
    format_lateness,
)
from paceline.topologies.reporting.sections import AnySection, Bars, Grid, Line, TableSection, Tile, Tiles
from paceline.topologies.reporting.shared import (
    capitalised,
    happenings_section,
    last_figures,
    learning_lines,
    result_tile,
)
from paceline.topologies.reporting.tables import Table

_OTHER_X = ("closed_at", "trained")

ROUNDS_COUNTED = "in their rounds, each from when it was taken to the end of its upload"
"""The time that usage is counted in where learners take rounds."""


class RunReporting(Reporting):
    """Reports a run of one job."""

    kind = "run"
    recorded = (METRICS_TABLE,)

    def builder(self, settings: dict[str, Any]) -> RunTables:
        return RunTables(settings)

    def progress(self) -> RunProgress:
        return RunProgress()

    def live_table(self) -> RunLiveTable:
        return RunLiveTable()

    def result(self, metrics: Mapping[str, Any], summary: Summary) -> dict[str, Any]:
        return {**metrics, **{name: summary[name] for name in ("truancy_max", "truancy_mean", "seconds")}}

    def conclusion(self, result: Mapping[str, Any], summary: Summary) -> Iterable[str]:
        latest = result["truancy_max"]
        if latest is None:
            finish = "no round was finished"
        else:
            finish = f"latest finish: {abs(latest):.1%} {'before' if latest <= 0 else 'after'} the deadline"
        spent = f"{format_count(result['rounds'], 'round')}, {result['seconds']:.1f} s"
        reached = describe_after(summary.metrics, spent)
        return [f"{reached}; {finish}"]

    def notices(self, tables: Mapping[str, Table]) -> list[str]:
        (waiting,) = tables["summary"].values("waiting")
        return [*([f"{capitalised(waiting)}."] if waiting else []), *notices_on(tables[NOW])]

    def sections(self, tables: Mapping[str, Table]) -> list[AnySection]:
        (summary,) = tables["summary"].records()
        sections: list[AnySection] = [] if summary["ended"] else [fleet_section(tables[NOW], has_deadline=True)]
        sections.append(_tiles(summary, result_tile(tables["summary"])))
        if tables["rounds"].rows:
            sections += learning_lines(tables["rounds"], "round", _OTHER_X, last_figures(tables["summary"]))
        if tables["work"].rows:
            sections += _time(tables, summary)
        caption = "What each device measured of itself before its first round: its speed, and its link."
        devices = TableSection(title="Benchmarks", group="Learners", table="devices", caption=caption)
        if summary["epsilon"] is not None:
            sections.append(_epsilon())
        sections.append(_truancy(summary))
        if any(tables["rounds"].values("staleness")):
            sections.append(_staleness())
        sections += [_learners_table(), devices]
        if tables["rounds"].rows:
            sections += [*usage_section(tables, ROUNDS_COUNTED), _learned_by_bytes(tables["rounds"])]
        return [*sections, _rounds_table(), happenings_section("A quiet run has only joins here.")]


def _tiles(summary: dict[str, Any], result: Tile) -> Tiles:
    planned = summary["planned_rounds"]
    finish = format_known(summary["truancy_mean"], format_lateness)
    num_late, num_works = summary["num_late"], format_count(summary["num_learner_rounds"], "allocation")
    discounted = f"; {summary['num_kept']:,} counted later, discounted" if summary["num_kept"] else ""
    tiles = (
        result,
        Tile("rounds", f"of {planned:,}" if planned else ""),
        Tile("truancy_max", f"of a round, against its deadline; {finish} on average"),
        Tile("late_share", f"{num_late:,} of {num_works}{discounted}"),
        Tile("deadline_use", "mean of the learners"),
        Tile("num_samples", f"by {format_count(summary['num_learners'], 'learner')}"),
        Tile(
            "fulfilment", f"samples trained ÷ samples wanted; {summary['num_satisfied']:,} rounds in full and in time"
        ),
        *_privacy_tiles(summary),
        *usage_tiles(summary),
    )
    return Tiles(title="Summary", table="summary", tiles=tiles)


def _privacy_tiles(summary: dict[str, Any]) -> list[Tile]:
    if summary["epsilon"] is None:
        return []
    return [Tile("epsilon", f"spent of each device's privacy, but for a probability of {summary['delta']:g}")]


def _epsilon() -> Line:
    return Line(
        title="Epsilon per round",
        group="Privacy",
        table="rounds",
        caption="What the models so far tell of any one device's data: at 1 little, above 10 hardly a limit. It counts "
        "the rounds of the device that took part most.",
        x="round",
        y=("epsilon",),
        details=("round", "epsilon"),
    )


def _time(tables: Mapping[str, Table], summary: dict[str, Any]) -> list[AnySection]:
    group = "Time against the deadline"
    bars = Bars(
        title="Time per phase and learner",
        group=group,
        table="work",
        caption="A good bar ends just before the deadline: no time idle, nothing late.",
        note="thin line: earliest to latest update",
        row="learner",
        parts=tuple(part.name for part in PARTS),
        idle=("wait", "lost", "idle"),
        deadline="deadline_seconds",
        end="arrival_seconds",
        pick="round",
    )
    sections: list[AnySection] = [bars]
    if "fleet" in tables:
        histogram = Line(
            title="Learners by their use of the deadline",
            group=group,
            table="deadline_use",
            caption="Most learners should be just below 100 % of the deadline.",
            x="use",
            y=("num_learners",),
            shape="columns",
            details=("use", "num_learners"),
        )
        fleet = {"title": "Time per phase, mean of all learners", "table": "fleet"}
        sections = [
            histogram,
            Bars(**{**{name: getattr(bars, name) for name in bars.__struct_fields__}, **fleet}),
            bars,
        ]
    return [
        *sections,
        Grid(
            title="Use of the deadline per learner and round",
            group=group,
            table="work",
            caption="Good cells are close to 100; ! marks updates that were late (dropped or discounted) or refused, "
            "× those that never came.",
            note="per cent of the deadline when the update came",
            row="learner",
            x="round",
            value="use",
            state="outcome",
            bad=("late", "discounted", "refused", "missing"),
            details=("learner", "round", "arrival_seconds", "use", "outcome", "is_halted"),
        ),
        Grid(
            title="Shards per learner and round",
            group="Allocation",
            table="work",
            caption="Faster learners take more shards, and the numbers settle after the first rounds.",
            note=f"{format_count(sum(tables['rounds'].values('num_shards')), 'shard')} in all",
            row="learner",
            x="round",
            value="num_shards",
            details=("learner", "round", "num_shards", "local_epochs", "num_samples"),
        ),
    ]


def _truancy(summary: dict[str, Any]) -> Line:
    most, average = (format_known(summary[name], format_lateness) for name in ("truancy_max", "truancy_mean"))
    return Line(
        title="Last update of each round, against the deadline",
        group="Punctuality",
        table="rounds",
        caption="Good rounds end just before the deadline, the dashed line. The papers call this figure truancy: "
        "(last update − deadline) / deadline, late updates included.",
        note=f"latest {most}, mean {average}",
        x="round",
        y=("truancy",),
        shape="columns",
        deadline=0.0,
        details=("round", "truancy", "seconds", "deadline_seconds", "late"),
    )


def _staleness() -> Line:
    return Line(
        title="Staleness of each round",
        group="Punctuality",
        table="rounds",
        caption="The most that the local epochs of two learners differ by: good rounds are near 0, where all updates "
        "are as far from the model that they began with.",
        x="round",
        y=("staleness",),
        shape="columns",
        details=("round", "staleness", "num_updates"),
    )


def _learned_by_bytes(rounds: Table) -> Line:
    total = sum(rounds.values("up_bytes"))
    title, name = next(((one.title, one.name) for one in rounds.metrics), ("loss", "loss"))
    return Line(
        title=f"{capitalised(title)} by bytes of updates",
        group="Energy and bytes",
        table="rounds",
        caption="The steeper, the fewer bytes learners upload for what is learned; compression makes it steeper.",
        note=f"{format_bytes(total)} in all, {format_bytes(total / len(rounds.rows))} per round",
        x="uploaded",
        y=(name,),
        details=("round", "up_bytes", "uploaded", name),
    )


def _learners_table() -> TableSection:
    shown = (
        *("learner", "rounds", "mean_shards", "mean_local_epochs", "num_samples", "deadline_use"),
        *("download_seconds", "train_seconds", "upload_seconds", "num_late", "num_refused", "num_limited", "end"),
    )
    caption = "Times are means over a learner's rounds; all should use nearly the whole deadline, and none be late."
    return TableSection(title="Learners", group="Learners", table="learners", caption=caption, columns=shown)


def _rounds_table() -> TableSection:
    caption = (
        "Fulfilment is samples trained ÷ samples wanted; occupancy is the share of the learners' time until their "
        "updates came. Both are good near 100 %."
    )
    return TableSection(title="Rounds", group="Rounds", table="rounds", caption=caption, file="metrics.csv")
