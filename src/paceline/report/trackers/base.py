"""What every tracker is told of a run, and the interface to write one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from paceline.report.rows import Row

Setting: TypeAlias = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A run, or a job of a pool, as it starts.

    Attributes:
        name: name of the run's folder.
        job: name of the job, for a job of a pool; empty for a run as a whole.
        kind: what messages call such a run, such as ``run`` or ``gossip run``.
        folder: where the tracker may keep files; the same for a run and its jobs, and for a run that is resumed.
        settings: job, fleet and versions by dotted keys, such as ``job.rounds``.
        began_at: seconds since 1970 at which the run's own clock showed 0.
        is_resumed: whether it was interrupted, and goes on.
    """

    name: str
    kind: str
    folder: Path
    job: str = ""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    began_at: float = 0.0
    is_resumed: bool = False

    @property
    def title(self) -> str:
        """Name of the run, and of the job in it."""
        return f"{self.name}/{self.job}" if self.job else self.name


@dataclass(frozen=True, kw_only=True)
class TrackedEnd:
    """How a run, or a job of a pool, ended.

    Attributes:
        status: whether it came to its end by itself, was interrupted, or an error ended it.
        reason: why it is over, in words.
        figures: headline figures of the whole run, by column of its summary.
    """

    status: Literal["finished", "interrupted", "failed"]
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)


class Tracker(ABC):
    """Keeps the figures of one run, or of one job of a pool, elsewhere.

    It is made without arguments, and raises `ConfigError` there if a package that it needs is missing. Then its methods
    are called in a thread that it shares with the trackers of the other jobs alone, in the order `start`, `log` for
    each row, `end`; a run's `start` comes before those of its jobs. They may take long: rows wait meanwhile. Once one
    of them raises, that is logged, and no tracker of this kind is called again in this run.
    """

    @abstractmethod
    def start(self, run: TrackedRun) -> None:
        """Begin to keep a run."""

    @abstractmethod
    def log(self, row: Row) -> None:
        """Keep a row."""

    @abstractmethod
    def end(self, end: TrackedEnd) -> None:
        """Keep how the run ended, and let go of what is held."""
