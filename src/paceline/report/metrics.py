"""Figures of a run that goes on, for Prometheus: how its tables grow, and what happens in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from paceline.axon.metrics import Metric, Sample, fitting
from paceline.events import Event
from paceline.report.folder import RunFolder
from paceline.report.rows import Row, RowReader
from paceline.topologies.reporting.base import Reporting

MAX_SERIES = 100
"""Things, such as devices, with figures of their own in a table; those that come later are `OTHERS` together."""

OTHERS = "(others)"

_ADDED = ("count", "bytes", "joules", "money")  # kinds of columns whose sum over rows says something


class RunMetrics:
    """Follows a run, and the jobs in it; returns its figures when it is called, from the same thread.

    Of a table ``epochs``, a column `bytes_sent`, which adds up, is a counter, ``paceline_epochs_bytes_sent_total``; a
    column `loss` is a gauge with that of the last row, ``paceline_epochs_loss``.
    """

    def __init__(self, reporting: Reporting) -> None:
        self._kind = reporting.kind
        self._num_events: Counter[str] = Counter()
        self._readers: dict[str, RowReader] = {}
        self._tables: dict[str, _TableFigures] = {}
        self._begin("", reporting)

    def begin_job(self, job: str, folder: RunFolder) -> None:
        """Take note of a job in the run; rows of it follow."""
        self._begin(job, folder.reporting)

    def _begin(self, job: str, reporting: Reporting) -> None:
        self._readers[job] = RowReader(reporting)
        for recorded in reporting.recorded:
            added = {column.name for column in recorded.columns if column.kind in _ADDED}
            self._tables.setdefault(recorded.name, _TableFigures(recorded.name, added, recorded.begin().step))

    def feed(self, event: Event, job: str = "") -> None:
        """Take an event into account."""
        self._num_events[str(event.__struct_config__.tag)] += 1
        for row in self._readers[job].of(event):
            self._tables[row.table].add(row, job)

    def __call__(self) -> Iterator[Metric]:
        yield Metric("paceline_run_info", "gauge", "What kind of run this is.", [Sample(1, {"kind": self._kind})])
        events = [Sample(count, {"event": tag}) for tag, count in sorted(self._num_events.items())]
        yield Metric("paceline_events_total", "counter", "What has happened, as in events.jsonl.", events)
        for table in self._tables.values():
            yield from table.metrics()


class _TableFigures:
    """The last figures of a table, and sums of those that add up, by what they are about."""

    def __init__(self, name: str, added: set[str], step: str | None) -> None:
        self._name, self._added, self._step = name, {*added, "rows"} - {step}, step
        self._labels: dict[tuple[str, ...], dict[str, str]] = {}
        self._last: dict[str, dict[tuple[str, ...], float]] = {}
        self._sums: dict[str, dict[tuple[str, ...], float]] = {}

    def add(self, row: Row, job: str) -> None:
        labels = {**({"job": job} if job else {}), **row.labels}
        about = tuple(labels.values())
        if about not in self._labels:
            if len(self._labels) >= MAX_SERIES:
                labels = dict.fromkeys(labels, OTHERS)
                about = tuple(labels.values())
            self._labels[about] = labels
        for name, figure in {**row.figures, **({self._step: row.step} if self._step else {}), "rows": 1.0}.items():
            if name in self._added:
                sums = self._sums.setdefault(name, {})
                sums[about] = sums.get(about, 0.0) + figure
            else:
                self._last.setdefault(name, {})[about] = figure

    def metrics(self) -> Iterator[Metric]:
        """Return a counter for each figure that adds up, and a gauge for each other one."""
        for name, figures in self._last.items():
            text = f"{name}, of the last row of {self._name}.csv."
            yield Metric(f"paceline_{fitting(self._name)}_{fitting(name)}", "gauge", text, self._samples(figures))
        for name, sums in self._sums.items():
            text = f"{name}, over all rows of {self._name}.csv since this process began."
            full = f"paceline_{fitting(self._name)}_{fitting(name)}_total"
            yield Metric(full, "counter", text, self._samples(sums))

    def _samples(self, figures: dict[tuple[str, ...], float]) -> list[Sample]:
        return [Sample(figure, self._labels[about]) for about, figure in figures.items()]
