"""The folder of a run: what was asked for, everything that happened, and the state to go on from."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from paceline import events
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.monitor.event_folder import JobFolder, Layout
from paceline.monitor.recording import Table, csv_rows, replace
from paceline.topologies.parallel.events import RoundClosed, RoundOpened

METRICS = (
    *("round", "at", "seconds", "deadline_seconds", "truancy", "learners", "updates"),
    *("late", "shards", "samples", "staleness", "average_staleness"),
    *("fulfilment", "drop_rate", "satisfied", "occupancy", "loss", "accuracy"),
)


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """Where an interrupted run goes on: after `round` (0 if none was closed), at `at` seconds of the run's clock."""

    at: float
    round: int


class _MetricsRows:
    """Makes a row per closed round."""

    def __init__(self) -> None:
        self._deadline_seconds: float | None = None

    def __call__(self, event: Event) -> tuple[object, ...] | None:
        if isinstance(event, RoundOpened):
            self._deadline_seconds = event.deadline_seconds
        if not isinstance(event, RoundClosed):
            return None
        return (
            *(event.round, event.at, event.seconds, self._deadline_seconds, event.truancy, event.num_learners),
            *(event.num_updates, len(event.late), event.num_shards, event.num_samples),
            *(event.staleness, event.average_staleness),
            *(event.fulfilment, 1 - event.fulfilment, int(event.is_satisfied), event.occupancy),
            *(event.loss, event.accuracy),
        )


class RunFolder(JobFolder):
    """The files of one run.

    - ``job.json``: the resolved job. It is written last, so a folder that has it is complete.
    - ``versions.json``: the code, the machine and the seed.
    - ``events.jsonl``: every event.
    - ``metrics.csv``: a row per closed round, made from the events.
    - ``checkpoints``: a folder for whoever saves the model.
    - ``report.html``: where the report goes.

    Besides `create`, `reopen` makes it ready for `record`.
    """

    layout: ClassVar[Layout] = Layout(
        kind="run",
        settings="job.json",
        tables=(Table("metrics.csv", METRICS, _MetricsRows),),
        subfolder="checkpoints",
        is_resumable=True,
    )

    def resumption(self) -> Resumption:
        """Where the run would go on after `reopen`; changes nothing."""
        return _resumption(_without_open_round(list(self.events())))

    def reopen(self) -> Resumption:
        """Make the folder ready to record on after the run was interrupted, at any point.

        What is kept is every event up to the last `RoundClosed`, and of those after it the ones that tell of a closed
        round (an update that came late, how a learner spent it). All else after it is dropped: the round that was open
        happens again, learners join again, and an end is none. Without any closed round nothing is kept.
        """
        self.close()
        self._claim_it()
        kept = _without_open_round(list(self.events()))
        try:
            replace(self._events_file, b"".join(map(events.to_line, kept)))
            for table in self.layout.tables:
                rows = [row for row in map(table.make_rows(), kept) if row is not None]
                replace(self.path / table.file, csv_rows([table.columns, *rows]))
            self.checkpoints.mkdir(exist_ok=True)
            self._start_recording()
        except OSError as error:
            raise ConfigError(f"{self.path}: the run cannot go on there: {error.strerror}") from error
        return _resumption(kept)


def _without_open_round(recorded: list[Event]) -> list[Event]:
    closings = [(index, event.round) for index, event in enumerate(recorded) if isinstance(event, RoundClosed)]
    if not closings:
        return []
    last, last_round = closings[-1]
    of_closed_rounds = [event for event in recorded[last + 1 :] if 1 <= getattr(event, "round", 0) <= last_round]
    return [*recorded[: last + 1], *of_closed_rounds]


def _resumption(kept: list[Event]) -> Resumption:
    last_round = max((event.round for event in kept if isinstance(event, RoundClosed)), default=0)
    return Resumption(at=max((event.at for event in kept), default=0.0), round=last_round)
