"""What all folders have in common, of runs, pools, gossip and split runs: what was asked for, and all that happened."""

from __future__ import annotations

import contextlib
import difflib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, ClassVar, NamedTuple, TypeVar

import msgspec

from paceline import events
from paceline.errors import ConfigError, PacelineError
from paceline.events import Event
from paceline.monitor.recording import Recorder, Table, as_json, csv_rows, read_json, replace
from paceline.monitor.versions import read_versions

FolderT = TypeVar("FolderT", bound="EventFolder")


class Layout(NamedTuple):
    """What a kind of folder has.

    Attributes:
        kind: how messages call what is kept in it.
        settings: the file of what was asked for. It is written last, so a folder that has it is complete.
        tables: of rows that are made from events.
        subfolder: for whatever is kept besides.
        is_resumable: whether it may be recorded on after an interruption.
    """

    kind: str
    settings: str
    tables: tuple[Table, ...]
    subfolder: str
    is_resumable: bool


class EventFolder:
    """A folder with settings, versions, events and tables.

    `create` makes one that is ready for `record`; `open` is for reading. Each event is one write, so that killing the
    process can cut no line but the last. Files survive the end of the process, however it ends; a loss of power may
    take what the system had not yet written. One process at a time may record.

    Attributes:
        path: of the folder.
        report: where its page goes.
    """

    layout: ClassVar[Layout]

    def __init__(self, path: Path) -> None:
        self.path = path
        self.report = path / "report.html"
        self._settings_file = path / self.layout.settings
        self._versions_file = path / "versions.json"
        self._events_file = path / "events.jsonl"
        self._subfolder = path / self.layout.subfolder
        self._recorder: Recorder | None = None
        self._claim: BinaryIO | None = None

    @classmethod
    def create(cls: type[FolderT], root: Path, name: str, settings: dict[str, Any]) -> FolderT:
        """Make the folder ``root/name``, ready to record; raises `ConfigError` if it holds files."""
        kind = cls.layout.kind
        if not name or name in (".", "..") or Path(name).name != name or "\0" in name:
            raise ConfigError(f"{kind} name {name!r} is not the name of a folder: no slashes, not empty")
        folder = cls(root / name)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            if any(folder.path.iterdir()):
                resume = ", or resume it" if cls.layout.is_resumable else ""
                raise ConfigError(f"{folder.path} exists and is not empty: give the {kind} another name{resume}")
            folder._subfolder.mkdir()
            folder._versions_file.write_bytes(as_json(read_versions(settings)))
            folder._events_file.touch()
            for table in cls.layout.tables:
                replace(folder.path / table.file, csv_rows([table.columns]))
            replace(folder._settings_file, as_json(settings))
            folder._claim_it()
            folder._start_recording()
        except OSError as error:
            raise ConfigError(f"{folder.path}: a {kind} cannot be kept there: {error.strerror}") from error
        return folder

    @classmethod
    def open(cls: type[FolderT], path: Path) -> FolderT:
        """What is in this folder, for reading; raises `ConfigError` if it is of another kind."""
        folder = cls(path)
        if not path.is_dir():
            raise ConfigError(f"{path}: no such folder{_nearest(path)}")
        if not folder._settings_file.is_file() or not folder._events_file.is_file():
            raise ConfigError(
                f"{path} is not a {cls.layout.kind} folder: it has no {cls.layout.settings} and events.jsonl"
            )
        return folder

    @classmethod
    def is_at(cls, path: Path) -> bool:
        """Whether the folder is one of this kind."""
        return (path / cls.layout.settings).is_file()

    @property
    def versions(self) -> dict[str, Any]:
        """What `read_versions` told when the folder was made."""
        return read_json(self._versions_file)

    def events(self) -> Iterator[Event]:
        """Everything that happened, in the order recorded, up to a last line that was cut short."""
        try:
            with self._events_file.open("rb") as file:
                for number, line in enumerate(file, 1):
                    yield from self._events_in(line, number)
        except OSError as error:
            raise ConfigError(f"{self._events_file} cannot be read: {error.strerror}") from error

    def _events_in(self, line: bytes, number: int) -> Iterator[Event]:
        try:
            yield from events.from_lines([line])
        except msgspec.DecodeError as error:
            raise ConfigError(f"{self._events_file}, line {number} is not an event: {error}") from error

    def record(self, event: Event) -> None:
        """Keep an event. Does not raise for a full or broken disk: `close` does."""
        assert self._recorder is not None, "a folder that was opened is for reading"
        self._recorder.record(event)

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

    def _start_recording(self) -> None:
        self._recorder = Recorder(self._events_file, self.layout.tables)

    def _claim_it(self) -> None:
        """Keep other processes from recording; the system lets go if this one dies."""
        claim = self._settings_file.open("rb")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            claim.close()
            raise ConfigError(
                f"{self.path}: another process is recording this {self.layout.kind}; stop it first"
            ) from None
        self._claim = claim

    def __enter__(self: FolderT) -> FolderT:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # What broke the run is told rather than what it broke.
        with contextlib.suppress(PacelineError) if error else contextlib.nullcontext():
            self.close()


class JobFolder(EventFolder):
    """A folder whose settings are one job, and that has room for models.

    Attributes:
        checkpoints: a folder for whoever saves models.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.checkpoints = self._subfolder

    @property
    def job(self) -> dict[str, Any]:
        """The resolved job."""
        return read_json(self._settings_file)


def _nearest(path: Path) -> str:
    siblings = [kept.parent.name for kept in path.parent.glob("*/events.jsonl")]
    near = difflib.get_close_matches(path.name, siblings, 1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""
