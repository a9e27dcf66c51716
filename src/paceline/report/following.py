"""Reads the record of a run as it grows, whoever writes it; what a page shows of it can be had at any time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.report import recording
from paceline.report.content import SETTINGS, PageContent, RunState, cut_tables, make_content
from paceline.report.folder import RunFolder
from paceline.topologies.reporting.base import Summary

_PIECE_BYTES = 1 << 20


class FollowedRun:
    """A run as far as its folder tells. If it is resumed or overwritten, it is read again from the start.

    Args:
        grams_per_kwh: carbon intensity of the devices' energy.
    """

    def __init__(self, path: Path, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> None:
        self._path = path
        self._grams_per_kwh = grams_per_kwh
        self._begin()

    def _begin(self) -> None:
        folder = self._folder = RunFolder.open(self._path)
        settings = folder.settings
        self._settings = {SETTINGS: settings, "Versions": folder.versions}
        self._builder = folder.reporting.builder(settings)
        self._builder.forgets_details = True
        self._progress = folder.reporting.progress()
        self._tails = {"": _Tail(folder.events_file)}
        self._is_whole = True

    def read(self) -> bool:
        """Take in what was recorded since the last time; returns whether that is anything.

        Raises `ConfigError` if there is no such run any more, or its record is damaged.
        """
        is_new = not self._is_whole or any(tail.is_replaced() for tail in self._tails.values())
        if is_new:
            self._begin()
        self._is_whole = False  # until all is taken in: what is damaged is found again, not passed over
        for name, job in self._folder.jobs().items():
            if name not in self._tails:
                self._tails[name] = _Tail(job.events_file)
        for name, tail in self._tails.items():
            for event in tail.events():
                is_new = True
                self._builder.feed(event, name)
                for _ in self._progress.lines(event, name):
                    pass
        self._is_whole = True
        return is_new

    @property
    def kind(self) -> str:
        """What such a run is called."""
        return self._folder.reporting.kind

    @property
    def share_done(self) -> float | None:
        """Part of the run that is done; None if that is not known."""
        return self._progress.share_done

    def summary(self) -> Summary:
        """Sum up what was read."""
        return Summary(self._builder.tables(self._grams_per_kwh))

    def content(self, summary: Summary | None = None) -> PageContent:
        """Gather what the page of the run shows, of what was read.

        Args:
            summary: of what was read, if it is at hand.
        """
        summary = summary or self.summary()
        state = self.state_of(summary)
        name, reporting = self._path.resolve().name, self._folder.reporting
        content = make_content(name, reporting, summary, self._settings, state)
        return msgspec.structs.replace(content, at=self._now(content))

    def moved(self, content: PageContent) -> PageContent:
        """Return the content with what goes on at this moment, which takes little time; all else stays as it is."""
        moving = {table.name: table for table in self._builder.moving_tables()}
        sections = [one for one in content.sections if moving.keys() >= one.used_tables().keys()]
        tables = {**content.tables, **cut_tables(moving, sections)}
        return msgspec.structs.replace(content, tables=tables, at=self._now(content))

    def state_of(self, summary: Summary) -> RunState:
        """Return whether a run is under way, over, or neither."""
        if summary.ended is not None:
            return "ended"
        return "running" if self._folder.is_being_recorded() else "interrupted"

    def _now(self, content: PageContent) -> float:
        """Tell the time on the run's clock, by when its last event was written."""
        at = self._builder.last_at
        if (content.state, content.clock) != ("running", "real"):
            return at
        return at + max(time.time() - max(tail.changed_at for tail in self._tails.values()), 0.0)


class _Tail:
    """The lines of a record that were not read yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = self._stat().st_ino
        self._num_bytes = 0
        self._rest = b""
        self._num_lines = 0

    def _stat(self) -> os.stat_result:
        try:
            return self._path.stat()
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be read: {error.strerror}") from error

    def is_replaced(self) -> bool:
        """Return whether the file is another one by now, or what was read was cut off."""
        there = self._stat()
        return there.st_ino != self._inode or there.st_size < self._num_bytes

    @property
    def changed_at(self) -> float:
        """When something was written last, in seconds since 1970."""
        return self._stat().st_mtime

    def events(self) -> Iterator[Event]:
        """Read up to the last line that is whole."""
        with self._path.open("rb") as file:
            file.seek(self._num_bytes)
            while piece := file.read(_PIECE_BYTES):
                self._num_bytes += len(piece)
                *lines, self._rest = (self._rest + piece).split(b"\n")
                for line in lines:
                    yield self._event_of(line)

    def _event_of(self, line: bytes) -> Event:
        self._num_lines += 1
        try:
            return recording.from_line(line + b"\n")
        except ValueError as error:
            raise ConfigError(f"{self._path}, line {self._num_lines} is not an event: {error}") from error
