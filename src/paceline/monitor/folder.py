"""The folder of a run: what was asked for, everything that happened, and the state to go on from."""

from __future__ import annotations

import contextlib
import csv
import difflib
import fcntl
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

from paceline import events
from paceline.errors import ConfigError, PacelineError
from paceline.events import AnyEvent, RoundClosed, RoundOpened
from paceline.monitor.versions import read_versions

METRICS = (
    *("round", "at", "seconds", "deadline_seconds", "truancy", "learners", "updates"),
    *("late", "shards", "samples", "staleness", "average_staleness", "loss", "accuracy"),
)


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """Where an interrupted run goes on: after `round` (0 if none was closed), at `at` seconds of the run's clock."""

    at: float
    round: int


class RunFolder:
    """The files of one run.

    - ``job.json``: the resolved job. It is written last, so a folder that has it is complete.
    - ``versions.json``: the code, the machine and the seed.
    - ``events.jsonl``: every event, one write each, so that killing the process can cut no line but the last.
    - ``metrics.csv``: a row per closed round, made from the events.
    - ``checkpoints``: a folder for whoever saves the model.
    - ``report.html``: where the report goes.

    `create` and `reopen` make it ready for `record`; `open` is for reading. Files survive the end of the process,
    however it ends; a loss of power may take what the system had not yet written. One process at a time may record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.report = path / "report.html"
        self._job_file = path / "job.json"
        self._versions_file = path / "versions.json"
        self._events_file = path / "events.jsonl"
        self._metrics_file = path / "metrics.csv"
        self._recorder: _Recorder | None = None
        self._claim: BinaryIO | None = None

    @classmethod
    def create(cls, root: Path, name: str, job: dict[str, Any]) -> RunFolder:
        """Make the folder ``root/name`` for a new run, ready to record; raises `ConfigError` if it holds files."""
        if not name or name in (".", "..") or Path(name).name != name:
            raise ConfigError(f"run name {name!r} is not the name of a folder: no slashes, not empty")
        folder = cls(root / name)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            if any(folder.path.iterdir()):
                raise ConfigError(f"{folder.path} exists and is not empty: give the run another name, or resume it")
            folder.checkpoints.mkdir()
            folder._versions_file.write_bytes(_as_json(read_versions(job)))
            folder._events_file.touch()
            _replace(folder._metrics_file, _csv_rows([METRICS]))
            _replace(folder._job_file, _as_json(job))
            folder._claim_it()
            folder._recorder = _Recorder(folder._events_file, folder._metrics_file)
        except OSError as error:
            raise ConfigError(f"{folder.path}: a run cannot be kept there: {error.strerror}") from error
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run that is in this folder, for reading; raises `ConfigError` if there is none."""
        folder = cls(path)
        if not path.is_dir():
            raise ConfigError(f"{path}: no such folder{_nearest_run(path)}")
        if not folder._job_file.is_file() or not folder._events_file.is_file():
            raise ConfigError(f"{path} is not a run folder: it has no job.json and events.jsonl")
        return folder

    @property
    def job(self) -> dict[str, Any]:
        """The resolved job."""
        return _read_json(self._job_file)

    @property
    def versions(self) -> dict[str, Any]:
        """What `read_versions` told when the folder was made."""
        return _read_json(self._versions_file)

    def events(self) -> Iterator[AnyEvent]:
        """Everything that happened, in the order recorded, up to a last line that was cut short."""
        try:
            with self._events_file.open("rb") as file:
                for number, line in enumerate(file, 1):
                    yield from self._events_in(line, number)
        except OSError as error:
            raise ConfigError(f"{self._events_file} cannot be read: {error.strerror}") from error

    def _events_in(self, line: bytes, number: int) -> Iterator[AnyEvent]:
        try:
            yield from events.from_lines([line])
        except msgspec.DecodeError as error:
            raise ConfigError(f"{self._events_file}, line {number} is not an event: {error}") from error

    def record(self, event: AnyEvent) -> None:
        """Keep an event. Does not raise for a full or broken disk: `close` does."""
        assert self._recorder is not None, "create or reopen a run folder before recording"
        self._recorder.record(event)

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
            _replace(self._events_file, b"".join(map(events.to_line, kept)))
            _replace(self._metrics_file, _csv_rows([METRICS, *_metrics(kept)]))
            self.checkpoints.mkdir(exist_ok=True)
            self._recorder = _Recorder(self._events_file, self._metrics_file)
        except OSError as error:
            raise ConfigError(f"{self.path}: the run cannot go on there: {error.strerror}") from error
        return _resumption(kept)

    def close(self) -> None:
        """Stop recording; raises `PacelineError` if some of it could not be written."""
        recorder, self._recorder = self._recorder, None
        if self._claim is not None:
            self._claim.close()
            self._claim = None
        if recorder is not None:
            recorder.close()
            if recorder.failure is not None:
                raise PacelineError(f"{self._events_file} is not complete: {recorder.failure}")

    def _claim_it(self) -> None:
        """Keep other processes from recording; the system lets go if this one dies."""
        claim = self._job_file.open("rb")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            claim.close()
            raise ConfigError(f"{self.path}: another process is recording this run; stop it first") from None
        self._claim = claim

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # What broke the run is told rather than what it broke.
        with contextlib.suppress(PacelineError) if error else contextlib.nullcontext():
            self.close()


class _Recorder:
    """Appends to the files of events and metrics, unbuffered."""

    def __init__(self, events_file: Path, metrics_file: Path) -> None:
        self._events = events_file.open("ab", buffering=0)
        self._metrics = metrics_file.open("ab", buffering=0)
        self._deadline_seconds: float | None = None
        self.failure: OSError | None = None

    def record(self, event: AnyEvent) -> None:
        if self.failure is not None:  # a line after a cut one would be lost with it
            return
        try:
            _write(self._events, events.to_line(event))
            if isinstance(event, RoundOpened):
                self._deadline_seconds = event.deadline_seconds
            elif isinstance(event, RoundClosed):
                _write(self._metrics, _csv_rows([_metrics_row(event, self._deadline_seconds)]))
        except OSError as error:
            self.failure = error

    def close(self) -> None:
        self._events.close()
        self._metrics.close()


def _without_open_round(recorded: list[AnyEvent]) -> list[AnyEvent]:
    closings = [(index, event.round) for index, event in enumerate(recorded) if isinstance(event, RoundClosed)]
    if not closings:
        return []
    last, last_round = closings[-1]
    of_closed_rounds = [event for event in recorded[last + 1 :] if 1 <= getattr(event, "round", 0) <= last_round]
    return [*recorded[: last + 1], *of_closed_rounds]


def _resumption(kept: list[AnyEvent]) -> Resumption:
    last_round = max((event.round for event in kept if isinstance(event, RoundClosed)), default=0)
    return Resumption(at=max((event.at for event in kept), default=0.0), round=last_round)


def _metrics(recorded: Iterable[AnyEvent]) -> Iterator[tuple[object, ...]]:
    deadline_seconds = None
    for event in recorded:
        if isinstance(event, RoundOpened):
            deadline_seconds = event.deadline_seconds
        elif isinstance(event, RoundClosed):
            yield _metrics_row(event, deadline_seconds)


def _metrics_row(event: RoundClosed, deadline_seconds: float | None) -> tuple[object, ...]:
    return (
        *(event.round, event.at, event.seconds, deadline_seconds, event.truancy, event.num_learners, event.num_updates),
        *(len(event.late), event.num_shards, event.num_samples, event.staleness, event.average_staleness),
        *(event.loss, event.accuracy),
    )


def _csv_rows(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _as_json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _write(file: BinaryIO | io.FileIO, content: bytes) -> None:
    num_written = file.write(content)
    if num_written != len(content):
        raise OSError(f"{num_written} of {len(content)} bytes could be written")


def _replace(path: Path, content: bytes) -> None:
    """Write a file such that it is whole at any time."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def _nearest_run(path: Path) -> str:
    siblings = [job.parent.name for job in path.parent.glob("*/job.json")]
    near = difflib.get_close_matches(path.name, siblings, 1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""
