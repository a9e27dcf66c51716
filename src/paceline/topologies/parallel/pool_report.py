"""How a pool of jobs is reported: where learners were, what its jobs came to, and what was paid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.events import Event
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel import events
from paceline.topologies.parallel.learners_now import LearnersNow, notices_on
from paceline.topologies.parallel.pool_progress import PoolProgress, describe, describe_placements
from paceline.topologies.parallel.report import ROUNDS_COUNTED
from paceline.topologies.parallel.tables import METRICS, RunTables
from paceline.topologies.reporting.base import Reporting, Summary, TableBuilder
from paceline.topologies.reporting.energy_and_bytes import Usage, usage_section, usage_table, usage_tiles
from paceline.topologies.reporting.fleet_now import NOW, fleet_section
from paceline.topologies.reporting.formatting import (
    describe_after,
    format_count,
    format_known,
    format_money,
    format_names,
    format_ratio,
    named,
    printable,
    setting,
)
from paceline.topologies.reporting.sections import AnySection, Gantt, Line, TableSection, Tile, Tiles
from paceline.topologies.reporting.shared import (
    LOSS_CAPTION,
    Happenings,
    capitalised,
    end_of,
    happenings_section,
    mean,
    metric_caption,
    summary_table,
)
from paceline.topologies.reporting.tables import Table, Value, columns, metric_columns, recorded_table

_LEDGER = columns(
    *("at seconds", "job text", "round count", "learner text", "num_shards count shards given"),
    *("num_samples count samples", "shards number shards paid", "price money", "amount money paid"),
)
_METRIC_COLUMNS = (
    *("training_seconds seconds a round took", "satisfaction ratio", "fulfilment ratio"),
    *("drop_rate ratio dropped", "occupancy ratio"),
)
_JOBS = columns(
    *("job text", "state text", "rounds count", "planned_rounds count of", "deadline_seconds seconds deadline"),
    *_METRIC_COLUMNS,
    *("paid money", "loss number"),
)
_LEARNING = columns("job text", "round count", "at seconds time", "trained count samples so far", "loss number")
_LANES = columns(
    *("learner text", "job text", "state text", "start seconds from", "end seconds to"),
    *("num_shards count shards", "round count", "num_samples count samples", "outcome text"),
)
_ALLOCATIONS = columns(
    *("at seconds", "placements text learners with their shards", "expected_seconds seconds expected"),
    *("above_bound ratio above the bound", "cost money", "idle text", "waiting text jobs that wait"),
    "waived text given up",
)
_ACCOUNTS = columns(
    *("learner text", "jobs text", "rounds count", "num_unpaid count not paid", "num_shards count shards given"),
    *("shards number shards paid", "num_samples count samples", "paid money", "end text at the end"),
)


class _Learner:
    """The ledger of a learner, and where it was."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: dict[str, None] = {}  # in order
        self.paid: list[events.LearnerPaid] = []
        self.left_because: str | None = None
        self.last_job: str | None = None
        self._place: tuple[str, int, float] | None = None  # job, shards, since
        self._stays: list[tuple[Value, ...]] = []

    def place(self, placement: tuple[str, int] | None, at: float) -> None:
        """Put it into a job, or into none."""
        if self._place is not None:
            if placement == self._place[:2]:
                return
            self._stays = self.stays(at)
        self._place = None if placement is None else (*placement, at)
        if placement is not None:
            self.last_job = placement[0]
            self.jobs[placement[0]] = None

    def end(self, job: str, at: float) -> None:
        """Take it out of a job that is over."""
        if self._place is not None and self._place[0] == job:
            self.place(None, at)

    def stays(self, until: float) -> list[tuple[Value, ...]]:
        """Rows of lanes: in which job it was placed and when."""
        if self._place is None or until <= self._place[2]:
            return self._stays
        job, num_shards, start = self._place
        return [*self._stays, (self.name, job, "placed", start, until, num_shards, None, None, None)]

    def row(self) -> tuple[Value, ...]:
        return (
            self.name,
            format_names(self.jobs) or None,
            len(self.paid),
            sum(line.num_samples == 0 for line in self.paid),
            sum(line.num_shards for line in self.paid),
            math.fsum(line.shards for line in self.paid),
            sum(line.num_samples for line in self.paid),
            math.fsum(line.amount for line in self.paid),
            end_of(self.left_because),
        )


class PoolTables(TableBuilder):
    """The tables of a pool: of its own events, and those of its jobs."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._started: events.PoolStarted | None = None
        self._ended: events.PoolEnded | None = None
        self._submitted: dict[str, events.JobSubmitted] = {}
        self._job_ends: dict[str, events.JobEnded] = {}
        self._runs: dict[str, RunTables] = {}
        self._paid: list[events.LearnerPaid] = []
        self._allocations: list[events.JobsAllocated] = []
        self._learners: dict[str, _Learner] = {}
        self._placements: dict[str, list[str]] = {}
        self._now = LearnersNow()
        self._num_moves = 0
        self._happenings = Happenings()
        self._is_waiting = False

    def feed(self, event: Event, job: str = "") -> None:
        if job:
            if job not in self._runs:
                self._runs[job] = RunTables({})
                self._runs[job].forgets_details = self.forgets_details
            self._runs[job].feed(event)
            self._now.feed(event, job, self._placements.get(job, ()))
            return
        self.last_at = max(self.last_at, event.at)
        self._now.feed(event)
        match event:
            case events.LearnerPaid():
                self._paid.append(event)
                learner = self._learner(event.learner)
                learner.paid.append(event)
                learner.jobs[event.job] = None
            case events.JobsAllocated():
                self._allocate(event)
            case events.PoolStarted():
                self._started = event
            case events.PoolEnded():
                self._ended = event
            case events.JobSubmitted():
                self._submitted[event.job] = event
            case events.JobEnded():
                self._job_ends[event.job] = event
                for learner in self._learners.values():
                    learner.end(event.job, event.at)
            case LearnerJoined():
                self._learner(event.learner).left_because = None
            case LearnerLeft():
                self._learner(event.learner).left_because = event.reason
                self._learner(event.learner).place(None, event.at)
        self._note(event)

    def _note(self, event: Event) -> None:
        if isinstance(event, WaitingForLearners):
            if not self._is_waiting:  # learners that measure themselves are ready on and off
                self._happenings.add(event.at, describe(event))
            self._is_waiting = True
        elif isinstance(event, events.JobSubmitted | events.JobEnded | LearnerJoined | LearnerLeft):
            self._happenings.add(event.at, describe(event))

    def _learner(self, name: str) -> _Learner:
        if name not in self._learners:
            self._learners[name] = _Learner(name)
        return self._learners[name]

    def _allocate(self, event: events.JobsAllocated) -> None:
        self._allocations.append(event)
        self._is_waiting = False
        self._placements = {}
        for name, (job, _) in event.placements.items():
            self._placements.setdefault(job, []).append(name)
            self._num_moves += self._learner(name).last_job not in (None, job)
        for name, learner in self._learners.items():
            learner.place(event.placements.get(name), event.at)

    def tables(self, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> list[Table]:
        runs = {name: Summary(self._runs.get(name, RunTables({})).tables(grams_per_kwh)) for name in self._submitted}
        last_at = max([self.last_at, *(self._submitted[name].at + run.seconds for name, run in runs.items())])
        metric_names = list(dict.fromkeys(name for run in runs.values() for name in run.metrics))
        metrics = metric_columns(metric_names)
        jobs = Table("jobs", (*_JOBS, *metrics), [self._job_row(name, run, metric_names) for name, run in runs.items()])
        usage, used = self._usage(runs, grams_per_kwh)
        stays = [row for learner in self._learners.values() for row in learner.stays(last_at)]
        lanes = sorted([*stays, *_works(runs)], key=lambda row: float(row[3] or 0))
        ledger = [tuple(getattr(line, column.name) for column in _LEDGER) for line in self._paid]
        return [
            self._summary(runs, jobs, last_at, used.figures(grams_per_kwh)),
            Table("ledger", _LEDGER, ledger),
            jobs,
            Table("learning", (*_LEARNING, *metrics), list(_learning_rows(runs, metric_names))),
            Table("lanes", _LANES, lanes),
            Table("allocations", _ALLOCATIONS, [_allocation_row(event) for event in self._allocations]),
            Table("accounts", _ACCOUNTS, [learner.row() for learner in self._learners.values()]),
            usage,
            self._happened(runs),
            self._now.table(),
        ]

    def moving_tables(self) -> list[Table]:
        return [self._now.table()]

    def _job_row(self, name: str, run: Summary, metric_names: Iterable[str]) -> tuple[Value, ...]:
        submitted, ended = self._submitted[name], self._job_ends.get(name)
        return (
            *(name, "under way" if ended is None else ended.reason, run.rounds, submitted.rounds),
            *(submitted.deadline_seconds, *(run[metric] for metric in METRICS)),
            *(math.fsum(line.amount for line in self._paid if line.job == name), run.loss),
            *(run.metrics.get(metric) for metric in metric_names),
        )

    def _usage(self, runs: Mapping[str, Summary], grams_per_kwh: float) -> tuple[Table, Usage]:
        """Sum up what each learner used in all jobs."""
        parts: dict[str, list[Usage]] = {name: [] for name in self._learners}
        table = usage_table({}, {}, grams_per_kwh)
        powers: dict[str, str] = {}
        for run in runs.values():
            for record in run.tables["usage"].records():
                fields = {name: record[name] for name in Usage.__struct_fields__}
                parts.setdefault(record["learner"], []).append(Usage(**fields))
                if record["power"] is not None:
                    powers.setdefault(record["learner"], record["power"])
        used = {name: Usage.total(some) for name, some in parts.items()}
        for name, usage in used.items():
            table.rows.append((name, *usage.figures(grams_per_kwh).values(), powers.get(name)))
        return table, Usage.total(used.values())

    def _happened(self, runs: Mapping[str, Summary]) -> Table:
        table = self._happenings.table()
        rows = [
            (record["at"], f"{printable(name)}, {record['what']}")
            for name, run in runs.items()
            for record in run.tables["happenings"].records()
        ]
        return Table(table.name, table.columns, sorted([*rows, *table.rows], key=lambda row: float(row[0] or 0)))

    def _summary(self, runs: Mapping[str, Summary], jobs: Table, last_at: float, usage: dict[str, Value]) -> Table:
        started, ended = self._started, self._ended
        budget = setting(self._settings, "pool", "total_budget")
        about = [
            format_count(len(runs), "job"),
            f"learners placed by {named(self._settings, 'allocation')}",
            f"{started.clock} clock" if started else "nothing recorded",
        ]
        figures: dict[str, Value] = {
            "about text": " · ".join(about),
            "ended text": ended.reason if ended else None,
            "clock text": started.clock if started else None,
            "num_jobs count jobs": len(runs),
            "num_over count jobs over": len(self._job_ends),
            "num_played count jobs with a round": sum(run.rounds > 0 for run in runs.values()),
            "spent money": math.fsum(line.amount for line in self._paid),
            "total_budget money budget": budget if isinstance(budget, int | float) else None,
            **{column: mean(jobs.values(column.split(" ")[0])) for column in _METRIC_COLUMNS},
            "num_learners count learners": len(self._learners),
            "num_moves count moves": self._num_moves,
            "num_audits count audits": sum(run.num_audits for run in runs.values()),
            "seconds seconds time": last_at - (started.at if started else 0.0),
        }
        return summary_table(figures, {}, usage)


def _works(runs: Mapping[str, Summary]) -> Iterator[tuple[Value, ...]]:
    """Rows of lanes: when learners worked in their jobs."""
    for name, run in runs.items():
        for work in run.tables["work"].records():
            state = "worked" if work["outcome"] == "accepted" else "not counted"
            yield (
                *(work["learner"], name, state, work["started_at"], work["ended_at"], work["num_shards"]),
                *(work["round"], work["num_samples"], work["outcome"]),
            )


def _learning_rows(runs: Mapping[str, Summary], metric_names: Sequence[str]) -> Iterator[tuple[Value, ...]]:
    for name, run in runs.items():
        for closed in run.tables["rounds"].records():
            when = (closed["round"], closed["closed_at"], closed["trained"])
            yield (name, *when, closed["loss"], *(closed.get(metric) for metric in metric_names))


def _allocation_row(event: events.JobsAllocated) -> tuple[Value, ...]:
    return (
        *(event.at, describe_placements(event, limit=20), event.expected_seconds),
        event.expected_seconds / event.bound - 1 if event.bound > 0 else None,
        event.cost,
        *(format_names(names) or None for names in (event.idle, event.waiting, event.waived)),
    )


class PoolReporting(Reporting):
    """Reports a pool of jobs."""

    kind = "pool"
    recorded = (recorded_table("ledger", events.LearnerPaid, _LEDGER),)
    subfolder = "jobs"

    def builder(self, settings: dict[str, Any]) -> PoolTables:
        return PoolTables(settings)

    def progress(self) -> PoolProgress:
        return PoolProgress()

    def result(self, metrics: Mapping[str, Any], summary: Summary) -> dict[str, Any]:
        names = ("training_seconds", "satisfaction", "fulfilment", "drop_rate", "occupancy")
        figures = {job["job"]: {name: job[name] for name in names} for job in summary.tables["jobs"].records()}
        jobs = {name: {**metrics["jobs"][name], **known} for name, known in figures.items()}
        return {**metrics, "jobs": jobs}

    def conclusion(self, result: Mapping[str, Any], summary: Summary) -> Iterable[str]:
        metrics = [column.name for column in summary.tables["jobs"].metrics]
        for name, job in result["jobs"].items():
            share = "" if job["fulfilment"] is None else f"; {job['fulfilment']:.1%} of its data trained"
            reached = describe_after(
                {metric: job.get(metric) for metric in metrics}, format_count(job["rounds"], "round")
            )
            yield f"{name}: {reached}{share}"
        yield f"paid    {result['spent']:.2f}"

    def notices(self, tables: Mapping[str, Table]) -> list[str]:
        return notices_on(tables[NOW])

    def sections(self, tables: Mapping[str, Table]) -> list[AnySection]:
        (summary,) = tables["summary"].records()
        sections: list[AnySection] = []
        if not summary["ended"]:
            sections.append(fleet_section(tables[NOW], has_deadline=True, has_jobs=True))
        sections.append(_tiles(summary))
        if tables["jobs"].rows:
            sections += _job_sections(tables, summary)
        good = "A good placement is close to the bound, gives nothing up, and lets no job wait."
        paid = "Work that counts is paid at the learner's price; shards given and paid should be the same."
        sections += [
            _lanes(summary),
            TableSection(title="Allocations", group="Allocations", table="allocations", caption=good),
            TableSection(title="Ledger", group="Ledger", table="accounts", caption=paid, file="ledger.csv"),
        ]
        if summary["num_played"]:
            sections += usage_section(tables, ROUNDS_COUNTED)
        return [*sections, happenings_section("A quiet pool has only joins and the jobs' ends here.")]


def _tiles(summary: dict[str, Any]) -> Tiles:
    budget, num_jobs, num_played = summary["total_budget"], summary["num_jobs"], summary["num_played"]
    left = 0.0 if budget is None else max(budget - summary["spent"], 0.0)
    of_jobs = f"mean of {format_count(num_played, 'job')}"
    of_jobs += f", {num_jobs - num_played} had no round" if num_played < num_jobs else ""
    moved = f"{format_count(summary['num_moves'], 'move')} between jobs, {format_count(summary['num_audits'], 'audit')}"
    tiles = (
        Tile("num_jobs", f"{summary['num_over']:,} over"),
        Tile("spent", "no limit" if budget is None else f"of {format_money(budget)}, {format_money(left)} left"),
        Tile("satisfaction", f"rounds in full and in time; {of_jobs}"),
        Tile("fulfilment", f"samples trained ÷ wanted; {format_known(summary['drop_rate'], format_ratio)} dropped"),
        Tile("training_seconds", of_jobs),
        Tile("occupancy", "of the learners' time in rounds"),
        Tile("num_learners", moved),
        *usage_tiles(summary),
    )
    return Tiles(title="Summary", table="summary", tiles=tiles)


def _job_sections(tables: Mapping[str, Table], summary: dict[str, Any]) -> list[AnySection]:
    caption = (
        "Means over a job's rounds. Satisfaction (rounds in full and in time), fulfilment (samples trained ÷ wanted) "
        "and occupancy are good near 100 %. Each job has a run folder below jobs/, to make a page of its own from."
    )
    means = ("mean", "", "", "", "", *(summary[name] for name in METRICS))
    total = (*means, *[""] * (len(tables["jobs"].columns) - len(means))) if len(tables["jobs"].rows) > 1 else ()
    sections: list[AnySection] = [TableSection(title="Jobs", group="Jobs", table="jobs", caption=caption, total=total)]
    learning = tables["learning"]
    charts = [(one, metric_caption(one)) for one in learning.metrics]
    charts += [(one, LOSS_CAPTION) for one in learning.columns if one.name == "loss"]
    return sections + [
        Line(
            title=capitalised(column.title),
            group="Jobs",
            table="learning",
            caption=caption,
            x="round",
            other_x=("at", "trained"),
            y=(column.name,),
            series="job",
            details=("job", "round", "at", column.name),
            is_half=True,
        )
        for column, caption in charts
        if any(value is not None for value in learning.values(column.name))
    ]


def _lanes(summary: dict[str, Any]) -> Gantt:
    return Gantt(
        title="Learners in jobs over time",
        group="Where learners were",
        table="lanes",
        caption="Pale: placed in a job; dark: from taking shards to the update; hatched: nothing of it counted. Good "
        "lanes are dark from end to end.",
        note=f"{format_count(summary['num_moves'], 'move')} from one job to another",
        row="learner",
        start="start",
        end="end",
        colour="job",
        state="state",
        looks={"placed": "back", "worked": "front", "not counted": "hatched"},
        details=("learner", "job", "state", "round", "num_shards", "num_samples", "outcome", "start", "end"),
    )
