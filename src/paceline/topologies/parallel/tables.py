"""Tables of a run of one job, made from its events in one pass."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted, StateLost, WaitingForLearners
from paceline.topologies.parallel import events
from paceline.topologies.parallel.learners_now import LearnersNow
from paceline.topologies.parallel.progress import describe
from paceline.topologies.reporting.base import TableBuilder
from paceline.topologies.reporting.energy_and_bytes import Usage, usage_table
from paceline.topologies.reporting.formatting import format_names, named, setting
from paceline.topologies.reporting.shared import Happenings, end_of, is_evaluated, mean, summary_table
from paceline.topologies.reporting.tables import Column, RecordedTable, Table, Value, columns, metric_columns

MAX_SHOWN = 40
"""Learners shown one by one; a larger fleet is also shown as a whole."""
_BIN_PERCENT, _MAX_BIN_PERCENT = 2, 120

_METRICS = columns(
    *("round count", "at seconds closed at", "seconds seconds took", "deadline_seconds seconds deadline"),
    *("truancy lateness last update that counts", "learners count", "updates count"),
    *("late count late or missing", "shards count", "samples count", "staleness number"),
    *("average_staleness number", "fulfilment ratio", "drop_rate ratio dropped"),
    *("satisfied count in full and in time", "occupancy ratio"),
    *("down_bytes bytes", "up_bytes bytes", "epsilon number", "loss number"),
)
_ROUNDS = columns(
    *("round count", "opened_at seconds", "closed_at seconds time", "seconds seconds took"),
    *(
        "deadline_seconds seconds deadline",
        "truancy lateness last update",
        "num_ready count drawn from",
        "num_learners count learners",
    ),
    *(
        "num_updates count updates",
        "num_shards count shards",
        "num_samples count samples",
        "trained count samples so far",
        "staleness number",
        "fulfilment ratio",
    ),
    *("is_satisfied bool in full and in time", "occupancy ratio"),
    *("down_bytes bytes sent to learners", "up_bytes bytes of updates", "uploaded bytes updates so far"),
    *("epsilon number", "loss number"),
)
_LATE = columns("late text late or missing")
PARTS = columns(
    *("wait seconds before start", "download seconds", "train seconds", "upload seconds"),
    *("working seconds working (phases not reported)", "lost seconds no update came", "idle seconds"),
)
_WORK = columns(
    *("learner text", "round count", "started_at seconds", "ended_at seconds", "num_shards count shards"),
    *("local_epochs count", "num_samples count samples", "deadline_seconds seconds deadline"),
    *("arrival_seconds seconds update after", "use ratio of the deadline", "outcome text"),
    "is_halted bool halted to be in time",
)
_LEARNERS = columns(
    *("learner text", "rounds count", "mean_shards number shards / round"),
    *("mean_local_epochs number local epochs / round", "num_shards count shards", "num_samples count samples"),
    *("deadline_use ratio use of deadline", "download_seconds seconds download", "train_seconds seconds train"),
    *("upload_seconds seconds upload", "num_late count late", "num_refused count refused"),
    *("num_limited count limited", "end text at the end"),
)
_DEVICES = columns(
    *("learner text", "benchmark_seconds seconds benchmark took", "train_rate number trains [samples/s]"),
    *("train_spread ratio ±", "down_rate bytes down [/s]", "up_rate bytes up [/s]"),
    "latency_ms number latency [ms]",
)
_HAPPENINGS = (
    *(LearnerJoined, LearnerLeft, WaitingForLearners, StateLost, events.SavingFailed),
    *(events.UpdateRefused, events.UpdateKept, events.UpdateAudited),
    *(events.UpdateLimited, events.ClaimLimited, events.RoundRolledBack),
)
METRICS = ("training_seconds", "satisfaction", "fulfilment", "drop_rate", "occupancy")
"""The five headline figures by which the thesis on Axon (§4.3) compares allocations: means over closed rounds."""


_SPENT = ("download_seconds", "train_seconds", "upload_seconds")
_KEPT_ROUNDS = 3  # of learners who are not shown one by one, where details are forgotten; late events are of these


class _MetricsRows:
    """Makes the row of each closed round."""

    def __init__(self) -> None:
        self._deadline_seconds: float | None = None

    def __call__(self, event: Event) -> Sequence[Value] | None:
        if isinstance(event, events.RoundOpened):
            self._deadline_seconds = event.deadline_seconds
        if not isinstance(event, events.RoundClosed):
            return None
        return (
            *(event.round, event.at, event.seconds, self._deadline_seconds, event.truancy, event.num_learners),
            *(event.num_updates, len(event.late), event.num_shards, event.num_samples),
            *(event.staleness, event.average_staleness),
            *(event.fulfilment, 1 - event.fulfilment, int(event.is_satisfied), event.occupancy),
            *(event.down_bytes, event.up_bytes, event.epsilon, event.loss),
        )


METRICS_TABLE = RecordedTable("metrics", _METRICS, _MetricsRows, has_metrics=True)


class _Work:
    """What a learner did in a round; seconds are counted from the opening of the round."""

    __slots__ = ("arrival_seconds", "local_epochs", "num_samples", "num_shards", "outcome", "spent", "start_seconds")

    def __init__(self) -> None:
        self.num_shards = 0
        self.local_epochs = 1
        self.num_samples = 0
        self.start_seconds = 0.0
        self.arrival_seconds: float | None = None
        self.outcome = "pending"
        self.spent: events.RoundSpent | None = None

    def parts(self, round_seconds: float) -> tuple[float, ...]:
        """Seconds of the columns `PARTS`, up to when the round closed."""
        wait = max(self.start_seconds, 0.0)
        if self.spent is not None:
            known = (self.spent.download_seconds, self.spent.train_seconds, self.spent.upload_seconds or 0.0, 0.0)
        else:
            busy = 0.0 if self.arrival_seconds is None else self.arrival_seconds - self.start_seconds
            known = (0.0, 0.0, 0.0, max(busy, 0.0))
        rest = max(round_seconds - wait - sum(known), 0.0)
        return (wait, *known, *((rest, 0.0) if self.arrival_seconds is None else (0.0, rest)))


class _Sums:
    """Sums over rounds of a learner, and how many values are in each."""

    def __init__(self) -> None:
        self._totals: dict[str, float] = {}
        self._counts: Counter[str] = Counter()
        self.used = Usage()

    def add(self, work: _Work, deadline_seconds: float | None) -> None:
        """Take in a round."""
        came, spent = work.arrival_seconds, work.spent
        values = {
            "num_shards": work.num_shards,
            "local_epochs": work.local_epochs,
            "num_samples": work.num_samples if work.outcome == "accepted" else 0,
            "use": None if came is None or not deadline_seconds else (came - work.start_seconds) / deadline_seconds,
        }
        if spent is not None:
            values |= {name: getattr(spent, name) for name in _SPENT}
            self.used = Usage.total([self.used, spent])
        for name, value in values.items():
            if value is not None:
                self._totals[name] = self._totals.get(name, 0) + value
                self._counts[name] += 1

    def total(self, name: str) -> float:
        """Sum of a value."""
        return self._totals.get(name, 0)

    def count(self, name: str) -> int:
        """In how many rounds a value is known."""
        return self._counts[name]

    def mean(self, name: str) -> float | None:
        """Mean of a value over the rounds in which it is known; None without any."""
        return self._totals[name] / self._counts[name] if name in self._totals else None


class _Learner:
    def __init__(self) -> None:
        self.works: dict[int, _Work] = {}
        self.past = _Sums()  # of rounds that are not among those works
        self.num_late = 0
        self.num_refused = 0
        self.num_limited = 0
        self.measured: events.DeviceMeasured | None = None
        self.left_because: str | None = None

    def work(self, number: int) -> _Work:
        if number not in self.works:
            self.works[number] = _Work()
        return self.works[number]

    def forget(self, number: int, deadline_seconds: float) -> None:
        """Keep only the sums of a round."""
        work = self.works.pop(number, None)
        if work is not None:
            self.past.add(work, deadline_seconds)

    def sums(self, deadlines: dict[int, float]) -> _Sums:
        """Sum up all rounds."""
        sums = copy.deepcopy(self.past)
        for number, work in self.works.items():
            sums.add(work, deadlines.get(number))
        return sums

    def row(self, name: str, sums: _Sums) -> tuple[Value, ...]:
        return (
            *(name, sums.count("num_shards"), sums.mean("num_shards"), sums.mean("local_epochs")),
            *(sums.total("num_shards"), sums.total("num_samples"), sums.mean("use")),
            *(sums.mean(name) for name in _SPENT),
            *(self.num_late, self.num_refused, self.num_limited, end_of(self.left_because)),
        )


class RunTables(TableBuilder):
    """The tables of a run of one job."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._metrics = METRICS_TABLE.begin()
        self._metrics_rows: list[tuple[Value, ...]] = []
        self._started: events.RunStarted | None = None
        self._ended: events.RunEnded | None = None
        self._opened: dict[int, events.RoundOpened] = {}
        self._closed: dict[int, events.RoundClosed] = {}
        self._last_late_seconds: dict[int, float] = {}
        self._learners: dict[str, _Learner] = {}
        self._past_rounds: dict[int, tuple[Value, ...]] = {}  # means over all learners, of rounds that are forgotten
        self._happenings = Happenings()
        self._now = LearnersNow()
        self._num_audits = 0
        self._num_rolled_back = 0
        self._waiting: WaitingForLearners | None = None

    def feed(self, event: Event, job: str = "") -> None:
        self.last_at = max(self.last_at, event.at)
        self._now.feed(event)
        match event:  # the frequent ones first
            case PhaseStarted():
                return
            case events.ShardsTaken() | events.ShardsAdded() | events.UpdateAccepted() | events.RoundSpent():
                self._add_work(event)
            case events.UpdateRefused():
                self._add_refusal(event)
            case events.UpdateKept():
                self._add_kept(event)
            case events.UpdateAudited():
                self._add_audit(event)
            case events.UpdateLimited():
                self._learner(event.learner).num_limited += 1
            case events.RoundRolledBack():
                self._num_rolled_back += 1
            case events.RunStarted():
                self._metrics.row(event)
                self._happenings.add(event.at, describe(event) if self._started else None)
                self._started = self._started or event
                self._ended = None
            case events.RunEnded():
                self._ended, self._waiting = event, None
            case events.RoundOpened():
                self._waiting = None
                self._add_opened(event)
            case events.RoundClosed():
                self._add_closed(event)
            case LearnerJoined():
                self._learner(event.learner).left_because = None
            case LearnerLeft():
                self._learner(event.learner).left_because = event.reason
            case events.DeviceMeasured():
                self._learner(event.learner).measured = event
            case WaitingForLearners():
                self._waiting = event
        if isinstance(event, _HAPPENINGS):
            self._happenings.add(event.at, describe(event))

    @property
    def _metric_names(self) -> tuple[str, ...]:
        return self._started.metric_names if self._started else ()

    def _learner(self, name: str) -> _Learner:
        if name not in self._learners:
            self._learners[name] = _Learner()
        return self._learners[name]

    def _add_opened(self, event: events.RoundOpened) -> None:
        if event.deadline_seconds <= 0:
            raise ConfigError(
                f"round {event.round} was opened with a deadline of {event.deadline_seconds} s, not above 0"
            )
        self._opened[event.round] = event
        self._metrics.row(event)

    def _add_closed(self, event: events.RoundClosed) -> None:
        if event.round not in self._opened:
            raise ConfigError(f"the events contradict each other: round {event.round} was closed and never opened")
        self._closed[event.round] = event
        self._metrics_rows.append(self._metrics.row(event) or ())
        for name in event.late:
            learner = self._learner(name)
            learner.num_late += 1
            work = learner.work(event.round)
            if work.outcome == "pending":
                work.outcome = "missing"
        if self.forgets_details and len(self._learners) > MAX_SHOWN:
            self._forget(event.round - _KEPT_ROUNDS)

    def _forget(self, number: int) -> None:
        """Keep of a round what is shown of it: the first learners, and means and sums of all."""
        if number not in self._closed or number in self._past_rounds:
            return
        work = Table("work", (*_WORK, *PARTS), list(self._work_rows([number])))
        ((_, *means),) = _fleet_table(work, len(self._learners)).rows
        self._past_rounds[number] = tuple(means)
        for learner in list(self._learners.values())[MAX_SHOWN:]:
            learner.forget(number, self._opened[number].deadline_seconds)

    def _add_work(
        self, event: events.ShardsTaken | events.ShardsAdded | events.UpdateAccepted | events.RoundSpent
    ) -> None:
        work = self._learner(event.learner).work(event.round)
        match event:
            case events.ShardsTaken():
                work.num_shards, work.local_epochs = event.num_shards, event.local_epochs
                work.start_seconds = event.seconds
            case events.ShardsAdded():
                work.num_shards += event.num_shards
            case events.UpdateAccepted():
                work.num_samples, work.arrival_seconds = event.num_samples, event.seconds
                work.outcome = "accepted"
            case events.RoundSpent():
                work.num_shards, work.num_samples = event.num_shards, event.num_samples
                work.start_seconds, work.spent = event.start_seconds, event

    def _add_refusal(self, event: events.UpdateRefused) -> None:
        learner = self._learners.get(event.learner)
        work = learner.works.get(event.round) if learner else None
        # An update for work that nobody took is worth a line, not a learner; a second copy does not undo the first.
        is_in = work is not None and work.outcome in ("accepted", "discounted")
        if learner is None or work is None or event.seconds is None or is_in:
            return
        if event.is_late:
            self._note_late(event.round, event.seconds)
        else:
            learner.num_refused += 1
        work.arrival_seconds, work.outcome = event.seconds, "late" if event.is_late else "refused"

    def _add_kept(self, event: events.UpdateKept) -> None:
        work = self._learner(event.learner).work(event.round)
        work.num_samples, work.arrival_seconds, work.outcome = event.num_samples, event.seconds, "discounted"
        self._note_late(event.round, event.seconds)

    def _note_late(self, number: int, seconds: float) -> None:
        self._last_late_seconds[number] = max(seconds, self._last_late_seconds.get(number, 0.0))

    def _add_audit(self, event: events.UpdateAudited) -> None:
        self._num_audits += 1
        if not event.is_honest:
            learner = self._learner(event.learner)
            learner.num_refused += 1
            learner.work(event.round).outcome = "refused"

    def tables(self, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> list[Table]:
        deadlines = {number: opened.deadline_seconds for number, opened in self._opened.items()}
        shown = (*_ROUNDS, *metric_columns(self._metric_names), *_LATE)
        rounds = Table("rounds", shown, list(self._round_rows()))
        sums = {name: one.sums(deadlines) for name, one in self._learners.items()}
        rows = [one.row(name, sums[name]) for name, one in self._learners.items()]
        learners = Table("learners", _LEARNERS, rows)
        used = {name: one.used for name, one in sums.items()}
        powers = {name: one.measured.power for name, one in self._learners.items() if one.measured}
        devices = [_device_row(name, one.measured) for name, one in self._learners.items() if one.measured]
        work = Table("work", (*_WORK, *PARTS), list(self._work_rows(sorted(self._closed))))
        tables = [
            self._summary(rounds, learners, Usage.total(used.values()), grams_per_kwh),
            Table("metrics", self._metrics.columns, self._metrics_rows),
            rounds,
            work,
            learners,
            Table("devices", _DEVICES, devices),
            usage_table(used, powers, grams_per_kwh),
            self._happenings.table(),
            self._now.table(),
        ]
        if len(self._learners) > MAX_SHOWN:
            fleet = _fleet_table(work, len(self._learners), self._past_rounds)
            tables += [fleet, _use_table(learners.values("deadline_use"))]
        return tables

    def moving_tables(self) -> list[Table]:
        return [self._now.table()]

    def _round_rows(self) -> Iterator[tuple[Value, ...]]:
        """Make a row per closed round."""
        uploaded = trained = 0
        for _, closed in sorted(self._closed.items()):
            uploaded += closed.up_bytes
            trained += closed.num_samples
            yield self._round_row(closed, uploaded, trained)

    def _round_row(self, closed: events.RoundClosed, uploaded: int, trained: int) -> tuple[Value, ...]:
        opened = self._opened[closed.round]
        last_late = self._last_late_seconds.get(closed.round, 0.0) / opened.deadline_seconds - 1
        return (
            *(closed.round, opened.at, closed.at, closed.seconds, opened.deadline_seconds),
            max(closed.truancy, last_late),
            *(opened.num_ready, closed.num_learners, closed.num_updates, closed.num_shards, closed.num_samples),
            *(trained, closed.staleness, closed.fulfilment, closed.is_satisfied, closed.occupancy),
            *(closed.down_bytes, closed.up_bytes, uploaded, closed.epsilon, closed.loss),
            *(closed.metrics.get(name) for name in self._metric_names),
            format_names(closed.late) or None,
        )

    def _work_rows(self, numbers: Iterable[int]) -> Iterator[tuple[Value, ...]]:
        """Make a row per learner and round, of these rounds, which are closed."""
        for number in numbers:
            closed, opened = self._closed[number], self._opened[number]
            for name, learner in self._learners.items():
                work = learner.works.get(number)
                if work is None:
                    continue
                came = work.arrival_seconds
                yield (
                    *(name, number, opened.at + work.start_seconds, closed.at if came is None else opened.at + came),
                    *(work.num_shards, work.local_epochs, work.num_samples, opened.deadline_seconds, came),
                    None if came is None else came / opened.deadline_seconds,
                    work.outcome,
                    work.spent is not None and work.spent.is_halted,
                    *work.parts(closed.seconds),
                )

    def _summary(self, rounds: Table, learners: Table, usage: Usage, grams_per_kwh: float) -> Table:
        started, ended, closed = self._started, self._ended, [self._closed[number] for number in sorted(self._closed)]
        results: list[events.RoundClosed | events.RunEnded] = [*closed, *([ended] if ended else [])]
        evaluated = [one for one in results if is_evaluated(one)]
        num_late, num_works = sum(len(one.late) for one in closed), sum(one.num_learners for one in closed)
        truancies = rounds.values("truancy")
        per_round = setting(self._settings, "job", "learners_per_round")
        about = [
            f"{named(self._settings, 'model')} on {named(self._settings, 'data')}",
            *([f"{started.num_parameters:,} parameters"] if started else []),
            f"shares by {named(self._settings, 'allocation')}",
            *([f"{per_round} learners drawn for each round"] if per_round else []),
            f"aggregation by {named(self._settings, 'aggregation')}",
            f"{started.clock} clock" if started else "nothing recorded",
        ]
        planned = setting(self._settings, "job", "rounds")
        figures: dict[str, Value] = {
            "about text": " · ".join(about),
            "ended text": ended.reason if ended else None,
            "waiting text": describe(self._waiting) if self._waiting else None,
            "clock text": started.clock if started else None,
            "loss number": evaluated[-1].loss if evaluated else None,
            "rounds count": len(closed),
            "planned_rounds count": planned if isinstance(planned, int) else None,
            "seconds seconds time": self.last_at - (started.at if started else 0.0),
            "truancy_max lateness latest finish": max(truancies, default=None),
            "truancy_mean lateness mean finish": mean(truancies),
            "num_late count late or missing": num_late,
            "num_learner_rounds count allocations": num_works,
            "num_kept count late, discounted": sum(one.num_kept for one in closed),
            "late_share ratio late or missing": num_late / num_works if num_works else None,
            "deadline_use ratio use of the deadline": mean(learners.values("deadline_use")),
            "num_samples count samples trained": sum(one.num_samples for one in closed),
            "num_learners count learners": len(self._learners),
            "training_seconds seconds a round took": mean(one.seconds for one in closed),
            "satisfaction ratio": mean(float(one.is_satisfied) for one in closed),
            "fulfilment ratio": mean(one.fulfilment for one in closed),
            "drop_rate ratio dropped": mean(1 - one.fulfilment for one in closed),
            "occupancy ratio": mean(one.occupancy for one in closed),
            "num_satisfied count rounds in full and in time": sum(one.is_satisfied for one in closed),
            "epsilon number epsilon": max((one.epsilon for one in closed if one.epsilon is not None), default=None),
            "delta number": setting(self._settings, "privacy", "delta"),
            "num_audits count audits": self._num_audits,
            "num_rolled_back count rounds rolled back": self._num_rolled_back,
            "num_parameters count parameters": started.num_parameters if started else None,
            "num_shards count shards served": started.num_shards if started else None,
        }
        metrics = {name: evaluated[-1].metrics.get(name) if evaluated else None for name in self._metric_names}
        return summary_table(figures, metrics, usage.figures(grams_per_kwh))


def _device_row(name: str, measured: events.DeviceMeasured) -> tuple[Value, ...]:
    """Make the row of a device's measurements; a profile comes from the network and may hold anything."""

    def number(value: object) -> float | None:
        return value if isinstance(value, int | float) else None

    def rate(key: str, field: str) -> float | None:
        known = measured.profile.get(key)
        return number(known.get(field)) if isinstance(known, dict) else None

    latency = number(measured.profile.get("latency_seconds"))
    return (
        *(name, measured.seconds, rate("train", "per_second"), rate("train", "spread")),
        *(rate("down", "per_second"), rate("up", "per_second"), None if latency is None else 1000 * latency),
    )


def _fleet_table(work: Table, num_learners: int, past: Mapping[int, tuple[Value, ...]] | None = None) -> Table:
    """Average all learners by round, for a fleet too large to be shown one by one.

    Args:
        past: means of rounds of which not all work is there any more.
    """
    names = ("round", "deadline_seconds", "arrival_seconds", *(part.name for part in PARTS))
    shown = {column.name: column for column in work.columns}
    by_round: dict[int, list[dict[str, Any]]] = {}
    for record in work.records():
        by_round.setdefault(record["round"], []).append(record)
    means: dict[int, tuple[Value, ...]] = {
        number: tuple(mean(record[name] for record in records) for name in names)
        for number, records in by_round.items()
    }
    rows = [(f"all {num_learners:,}", *one) for _, one in sorted({**means, **(past or {})}.items())]
    return Table("fleet", (Column("learner", "learner"), *(shown[name] for name in names)), rows)


def _use_table(uses: Sequence[float | None]) -> Table:
    """Count the learners by how much of the deadline they use."""
    counts = Counter(
        min(int(100 * use / _BIN_PERCENT) * _BIN_PERCENT, _MAX_BIN_PERCENT) for use in uses if use is not None
    )
    bins = range(min(counts), max(counts) + 1, _BIN_PERCENT) if counts else ()
    heads = columns("use number per cent of the deadline", "num_learners count learners")
    return Table("deadline_use", heads, [(low, counts[low]) for low in bins])
