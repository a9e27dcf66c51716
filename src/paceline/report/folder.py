"""The folder of a run of any kind: what was asked for, everything that happened, and the state to go on from."""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

from paceline import files, topologies
from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.errors import ConfigError, DiskError, PacelineError, in_one_line
from paceline.events import Event
from paceline.report import recording
from paceline.report.recording import Recorder
from paceline.report.versions import read_versions
from paceline.topologies.reporting.base import Reporting, Summary

START = "start.safetensors"
"""File of a run with the parameters that it starts from, if they were in no file of the user's."""

FLEET = "fleet.json"
"""File of a run with the devices that were started for it."""

LISTEN = "listen.json"
"""File of a run with the address where devices join it."""

_CLAIM_TRIES, _CLAIM_PAUSE_SECONDS = 3, 0.02

_OWN_FILES = ("versions.json", "events.jsonl", "report.html", LISTEN, "devices.json", "audit.jsonl", FLEET, START)


class RunFolder:
    """The files of one run.

    - the resolved job, in a file named for the table that announces it, such as ``job.json``. It is written last, so
      a folder that has it is complete.
    - ``versions.json``: the code, the machine and the seed.
    - ``events.jsonl``: every event, each line with a checksum.
    - the topology's recorded tables as CSV, a row as its event comes.
    - ``checkpoints``: a folder for whoever saves models; for a pool instead ``jobs``, with a run folder per job.
    - ``report.html``: where the report goes.

    `create` makes one that is ready for `record`, and so does `reopen` of an interrupted run; `open` is for reading.
    Each event is one write, so that killing the process can cut no line but the last. Files survive the end of the
    process, however it ends; a loss of power may take what came after the last `sync`. One process at a time may
    record. Nobody but the owner may read what is made here.
    """

    def __init__(self, path: Path, table: str) -> None:
        self.path = path
        self.topology, self.kind = topologies.announced_by({table: {}}, str(path))
        self.reporting: Reporting = self.topology.kinds[self.kind]
        self.report = path / "report.html"
        self.checkpoints = path / self.reporting.subfolder
        self._settings_file = path / f"{table}.json"
        self._versions_file = path / "versions.json"
        self.events_file = path / "events.jsonl"
        self._recorder: Recorder | None = None
        self._claim: BinaryIO | None = None
        self._jobs: list[RunFolder] = []
        self._is_reopened = False

    @classmethod
    def create(cls, root: Path, name: str, settings: dict[str, Any], *, overwrite: bool = False) -> RunFolder:
        """Make the folder ``root/name``, ready to record; raises `ConfigError` if it holds files.

        Args:
            overwrite: delete the run that is there, if it is one, and no process records it.
        """
        folder = cls(root / name, topologies.announced_by(settings, "the job")[1].table)
        kind = folder.reporting.kind
        if not name or name in (".", "..") or Path(name).name != name or "\0" in name:
            raise ConfigError(f"{kind} name {name!r} is not the name of a folder: no slashes, not empty")
        with contextlib.ExitStack() as stack:
            stack.callback(folder.close)
            folder._make(settings, overwrite=overwrite)
            stack.pop_all()
        return folder

    def _make(self, settings: dict[str, Any], *, overwrite: bool) -> None:
        kind = self.reporting.kind
        try:
            files.make_folder(self.path)
            if overwrite and any(self.path.iterdir()):
                self.open(self.path).delete_files()
            if any(self.path.iterdir()):
                raise ConfigError(
                    f"{self.path} exists and is not empty: give the {kind} another name, overwrite it, or resume it"
                )
            files.make_folder(self.checkpoints)
            files.replace(self._versions_file, _as_json(read_versions(settings)))
            files.replace(self.events_file, b"", is_synced=False)
            files.replace(self._settings_file, _as_json(settings))
            self._claim_it()
            self._start_recording()
        except OSError as error:
            raise ConfigError(f"{self.path}: a {kind} cannot be kept there: {files.reason_of(error)}") from error

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a folder for reading; raises `ConfigError` if it is not one of a run."""
        if not path.is_dir():
            raise ConfigError(f"{path}: no such folder{_nearest(path)}")
        table = _table_of(path)
        if table is None:
            known = ", ".join(f"{table}.json" for table in topologies.announcing_tables())
            raise ConfigError(f"{path} is not a run folder: it has no events.jsonl with one of {known}")
        return cls(path, table)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved job."""
        return _read_json(self._settings_file)

    @property
    def versions(self) -> dict[str, Any]:
        """The code, machine and seed noted when the folder was made."""
        return _read_json(self._versions_file)

    def events(self) -> Iterator[Event]:
        """Read every event in the order recorded, up to a last line that was cut short."""
        for number, line in enumerate(self._lines(), 1):
            yield from self._events_in(line, number)

    def _lines(self) -> Iterator[bytes]:
        try:
            with self.events_file.open("rb") as file:
                yield from file
        except OSError as error:
            raise ConfigError(f"{self.events_file} cannot be read: {error.strerror}") from error

    def _events_in(self, line: bytes, number: int) -> Iterator[Event]:
        if line.endswith(b"\n"):  # else it was cut short
            try:
                yield recording.from_line(line)
            except ValueError as error:
                raise ConfigError(f"{self.events_file}, line {number} is not an event: {error}") from error

    def whole_events(self) -> tuple[list[Event], str | None]:
        """Read the events whose lines are whole; returns them, and what is wrong with others, if there are any."""
        whole: list[Event] = []
        damaged: list[int] = []
        for number, line in enumerate(self._lines(), 1):
            try:
                whole.extend(self._events_in(line, number))
            except ConfigError:
                damaged.append(number)
        if not damaged:
            return whole, None
        lines = f"{len(damaged)} lines are damaged, the first is" if damaged[1:] else "a line is damaged,"
        return whole, f"{self.events_file.name}: {lines} line {damaged[0]}"

    def summary(self, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> Summary:
        """Sum up the run, finished or not; CO2 is computed with this carbon intensity."""
        jobs = {name: job.events() for name, job in self.jobs().items()}
        return self.reporting.summary(self.events(), self.settings, jobs, grams_per_kwh)

    def record(self, event: Event) -> None:
        """Keep an event. Does not raise for a full or broken disk: `sync` and `close` do."""
        assert self._recorder is not None, "a folder that was opened is for reading"
        self._recorder.record(event)

    def sync(self) -> None:
        """Wait until the disk has all events so far; raises `DiskError` if it does not take them."""
        if self._recorder is not None and not self._recorder.sync():
            raise DiskError(str(self._recorder.failure))

    @property
    def has_failed(self) -> bool:
        """Whether events are lost because the disk did not take them for too long, so that the run should end."""
        recorders = [folder._recorder for folder in (self, *self._jobs)]
        return any(recorder is not None and recorder.has_given_up for recorder in recorders)

    def open_job(self, name: str, settings: dict[str, Any]) -> RunFolder:
        """Make the run folder of a job of this pool ready to record, new or to go on; it is closed with the pool's."""
        assert self._recorder is not None, "a folder that was opened is for reading"
        jobs = self.checkpoints
        is_kept = self._is_reopened and any(path.name == name for path in jobs.iterdir())
        if is_kept and _table_of(jobs / name) is None:
            shutil.rmtree(jobs / name)  # its folder was just being made
            is_kept = False
        folder = RunFolder.open(jobs / name) if is_kept else RunFolder.create(jobs, name, settings)
        if is_kept:
            folder.reopen()
        self._jobs.append(folder)
        return folder

    def jobs(self) -> dict[str, RunFolder]:
        """Open the run folders of a pool's jobs for reading, by name; there are none in other folders."""
        found = [(path, _table_of(path)) for path in sorted(self.path.glob("jobs/*"))]
        return {path.name: RunFolder(path, table) for path, table in found if table is not None}

    def reopen(self, kept: Sequence[Event] | None = None, settings: dict[str, Any] | None = None) -> list[Event]:
        """Make the folder ready to record on after the run was interrupted, at any point; returns what is kept.

        Args:
            kept: the events that stay in the record; None for what the topology keeps of those that are whole.
            settings: the resolved job, where it has changed.
        """
        self.claim()
        self._is_reopened = True
        if kept is None:
            kept = self.topology.events_to_keep(self.whole_events()[0])
        try:
            if settings is not None:
                files.replace(self._settings_file, _as_json(settings))
                self._claim_it()  # the claim was on the file that is replaced
            files.replace(self.events_file, b"".join(map(recording.to_line, kept)))
            files.make_folder(self.checkpoints)
            self._start_recording(kept)
        except OSError as error:
            raise ConfigError(f"{self.path}: the run cannot go on there: {files.reason_of(error)}") from error
        return list(kept)

    def claim(self) -> None:
        """Keep other processes from recording, until it is closed; raises `ConfigError` if one does."""
        self.close()
        self._claim_it()

    def is_being_recorded(self) -> bool:
        """Return whether a process records the run, or is about to."""
        with self._settings_file.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def keep_fleet(self, described: dict[str, Any] | None) -> str | None:
        """Keep what it takes to make the run's fleet again, for whoever resumes it; returns why it cannot be kept.

        Args:
            described: see `Fleet.described`; None if devices join as they like.
        """
        path = self.path / FLEET
        try:
            path.unlink(missing_ok=True)
            if described is not None:
                files.replace(path, msgspec.json.encode(described))
        except OSError as error:
            return f"{path.name} cannot be written, which says how to resume: {files.reason_of(error)}"
        return None

    def keep_start(self, source: Path) -> None:
        """Keep the parameters that the run starts from, as `START`; raises `DiskError` on failure."""
        try:
            files.replace(self.path / START, lambda partial: shutil.copyfile(source, partial))
        except OSError as error:
            raise DiskError(f"{self.path / START} cannot be written: {files.reason_of(error)}") from error

    def delete_files(self) -> None:
        """Delete the files of a run; raises `ConfigError` if a process records it, or there are other files."""
        self._claim_it()
        try:
            tables = [table.file for table in self.reporting.recorded]
            folders = (self.checkpoints.name, "tls")
            own = {*_OWN_FILES, *tables, *folders, self._settings_file.name}
            others = sorted(one.name for one in self.path.iterdir() if one.name.removesuffix(files.NEW) not in own)
            if others:
                raise ConfigError(f"{self.path} holds {others[0]}, which is not of a run: move it elsewhere first")
            for name in folders:
                if (self.path / name).exists():
                    shutil.rmtree(self.path / name)
            for path in sorted(self.path.iterdir(), key=lambda path: path == self._settings_file):
                path.unlink()  # last what makes it a run, so that deleting can be tried again
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be overwritten: {in_one_line(error)}") from error
        finally:
            self.close()

    def close(self) -> None:
        """Stop recording, jobs included; raises `DiskError` if some of it could not be written."""
        jobs, self._jobs = self._jobs, []
        with contextlib.ExitStack() as stack:
            for job in jobs:
                stack.callback(job.close)
            self._close()

    def _close(self) -> None:
        recorder, self._recorder = self._recorder, None
        if self._claim is not None:
            self._claim.close()
            self._claim = None
        if recorder is not None:
            recorder.close()
            if recorder.failure is not None:
                raise DiskError(f"the record is not complete: {recorder.failure}")

    def _start_recording(self, kept: Sequence[Event] = ()) -> None:
        self._recorder = Recorder(self.events_file, self.reporting.recorded, kept)

    def _claim_it(self) -> None:
        """Keep other processes from recording; the system lets go if this one dies."""
        claim = self._settings_file.open("rb")
        for tries_left in reversed(range(_CLAIM_TRIES)):
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if tries_left:  # whoever only asks whether it is claimed is done at once
                    time.sleep(_CLAIM_PAUSE_SECONDS)
                    continue
                claim.close()
                raise ConfigError(
                    f"{self.path}: another process is recording this {self.reporting.kind}; stop it first"
                ) from None
        if self._claim is not None:
            self._claim.close()
        self._claim = claim

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # What broke the run is raised rather than what that broke.
        with contextlib.suppress(PacelineError) if error else contextlib.nullcontext():
            self.close()


def is_run(path: Path) -> bool:
    """Return whether this is the folder of a run, which is complete."""
    return _table_of(path) is not None


def _table_of(path: Path) -> str | None:
    """Find the table that announces the job of a run folder; None if the folder is none, or not complete."""
    is_recorded = (path / "events.jsonl").is_file()
    tables = topologies.announcing_tables() if is_recorded else []
    return next((table for table in tables if (path / f"{table}.json").is_file()), None)


def _as_json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _nearest(path: Path) -> str:
    siblings = [kept.parent.name for kept in path.parent.glob("*/events.jsonl")]
    near = difflib.get_close_matches(path.name, siblings, 1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""
