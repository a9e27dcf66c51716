"""What pages show: one run, several compared, or the list of those in a folder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.errors import ConfigError, one_line
from paceline.report.comparison import compare
from paceline.report.content import PageContent, RunState
from paceline.report.folder import is_run
from paceline.report.following import FollowedRun
from paceline.report.serving.channel import Source
from paceline.topologies.reporting.formatting import printable

_LIST_SECONDS = 2.0  # spent on runs that are new to the list before it is shown as far as it goes


class RunSource(Source):
    """The page of one run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._run: FollowedRun | None = None
        self._content: PageContent | None = None
        self._is_behind = False

    def look(self, *, is_quick: bool) -> PageContent | None:
        run = self._read()
        if self._content is None or not is_quick:
            return self.whole()
        self._content = run.moved(self._content)
        return self._content

    def whole(self) -> PageContent:
        """Return all of it."""
        run = self._read()
        if self._content is None or self._is_behind or self._content.state == "running":
            self._content, self._is_behind = run.content(), False
        return self._content

    def _read(self) -> FollowedRun:
        self._run = self._run or FollowedRun(self._path)
        self._is_behind |= self._run.read()
        return self._run


class ComparedSource(Source):
    """Several runs on one page."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._runs = [RunSource(path) for path in paths]

    def look(self, *, is_quick: bool) -> PageContent | None:
        return None if is_quick else compare([run.whole() for run in self._runs])


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list.

    Attributes:
        started_at: seconds since 1970.
        seconds: how long it has taken, on its own clock.
        share_done: part of it that is done.
        error: why no more is known of it.
    """

    name: str
    started_at: float
    kind: str = ""
    about: str = ""
    state: RunState | None = None
    seconds: float | None = None
    ended: str | None = None
    share_done: float | None = None
    metrics: Mapping[str, float | None] = {}
    loss: float | None = None
    error: str | None = None


class FolderSource(Source):
    """The runs in a folder and in the folders there, the newest first."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._listed: dict[Path, tuple[object, ListedRun]] = {}
        self._followed: dict[Path, FollowedRun] = {}

    def look(self, *, is_quick: bool) -> dict[str, Any] | None:
        if is_quick:
            return None
        until = time.monotonic() + _LIST_SECONDS
        runs = []
        for path in sorted(self.paths(), key=_started_at, reverse=True):
            known = self._known(path)
            if known is None and time.monotonic() < until:
                known = self._read(path)
            runs.append(known or ListedRun(name=self._name_of(path), started_at=_started_at(path)))
        return {"runs": runs}

    def paths(self) -> list[Path]:
        """Find the folders of runs."""
        found = (record.parent for pattern in ("*", "*/*") for record in self._root.glob(f"{pattern}/events.jsonl"))
        return [path for path in found if is_run(path)]

    def find(self, name: str) -> Path:
        """Return the folder of a run in the list; raises `ConfigError` if there is none of that name."""
        for path in self.paths():
            if self._name_of(path) == name:
                return path
        raise ConfigError(f"no run here is called {name[:80]!r}")

    def _name_of(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    def _known(self, path: Path) -> ListedRun | None:
        """Return what was listed of a run, if nothing has happened since."""
        seen, listed = self._listed.get(path, (None, None))
        return None if listed is None or listed.state == "running" or seen != _stamp(path) else listed

    def _read(self, path: Path) -> ListedRun:
        stamp, name, started_at = _stamp(path), self._name_of(path), _started_at(path)
        try:
            run = self._followed.pop(path, None) or FollowedRun(path)
            run.read()
            summary = run.summary()
            listed = ListedRun(
                name=name,
                started_at=started_at,
                kind=run.kind,
                about=summary.about,
                state=run.state_of(summary),
                seconds=getattr(summary, "seconds", None),
                ended=None if summary.ended is None else printable(summary.ended),
                share_done=run.share_done,
                metrics=summary.metrics,
                loss=getattr(summary, "loss", None),
            )
            if listed.state == "running":
                self._followed[path] = run
        except ConfigError as error:
            listed = ListedRun(name=name, started_at=started_at, error=one_line(str(error)))
        self._listed[path] = (stamp, listed)
        return listed


def _stamp(path: Path) -> object:
    """Return what changes when something is recorded, or the run is begun anew."""
    try:
        there = (path / "events.jsonl").stat()
    except OSError:
        return None
    return there.st_ino, there.st_size, there.st_mtime_ns


def _started_at(path: Path) -> float:
    """Return when a run was made, in seconds since 1970."""
    try:
        return (path / "versions.json").stat().st_mtime
    except OSError:
        return 0.0
