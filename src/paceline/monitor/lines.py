"""Tells a run, or the jobs of a pool, in plain lines for logs and pipes: no control codes, one line per thing."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from paceline.events import Event
from paceline.monitor.wording import printable, say_count, say_event, say_names, say_ratio, say_seconds, setting
from paceline.topologies.events import WaitingForLearners
from paceline.topologies.gossip.events import EpochEnded
from paceline.topologies.parallel.events import (
    JobsAllocated,
    JobSubmitted,
    RoundClosed,
    RoundOpened,
    RunEnded,
    RunStarted,
)
from paceline.topologies.split.events import SplitEpochEnded

_MAX_ALIKE = 20


class PlainLines:
    """A line per closed round, join, leave, refusal and wait; of very many alike in a row, the first and how many."""

    def __init__(self, console: Console) -> None:
        self._printer = Printer(console)
        self._terms = _Terms()

    def tell(self, event: Event) -> None:
        """Print the event's line, if it has one."""
        self._terms.tell(event)
        self._printer.tell(event, self._line(event))

    def _line(self, event: Event) -> str | None:
        if isinstance(event, RoundClosed):
            loss = [] if event.loss is None else [f"loss {event.loss:.3f}"]
            return "  ".join([*self._terms.say_work(event), *loss, *_say_result(event)])
        if isinstance(event, RunEnded):
            return f"ended: {event.reason}, {say_count(event.rounds, 'round')} in {say_seconds(event.at)}"
        return say_event(event)


class PoolLines:
    """A line per closed round of each job, and for who and what comes, is placed, is not paid and ends."""

    def __init__(self, console: Console) -> None:
        self._printer = Printer(console)
        self._terms: dict[str, _Terms] = {}
        self._most_ready = -1  # of the waits that were told since learners were placed

    def tell(self, event: Event, job: str = "") -> None:
        """Print the event's line, if it has one.

        Args:
            job: whose event it is; empty for those of the pool.
        """
        if isinstance(event, JobSubmitted):
            self._terms[event.job] = _Terms(event.rounds)
        elif job:
            self._terms.setdefault(job, _Terms()).tell(event)
        self._printer.tell(event, self._line(event, job))

    def _line(self, event: Event, job: str) -> str | None:
        if isinstance(event, WaitingForLearners):
            if event.num_ready <= self._most_ready:  # learners that measure themselves are ready on and off
                return None
            self._most_ready = event.num_ready
        elif isinstance(event, JobsAllocated):
            self._most_ready = -1
        if not isinstance(event, RoundClosed):
            return say_event(event, job)
        work = self._terms.setdefault(job, _Terms()).say_work(event)
        fulfilled = f"fulfilled {say_ratio(event.fulfilment)}"
        return "  ".join([printable(job), *work, fulfilled, *_say_result(event)])


class _Terms:
    """What a job's lines say besides its events: of how many rounds, of how long."""

    def __init__(self, num_rounds: int | None = None) -> None:
        self._num_rounds = num_rounds
        self._deadline_seconds: float | None = None

    def tell(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._num_rounds = setting(event.job, "job", "rounds")
        elif isinstance(event, RoundOpened):
            self._deadline_seconds = event.deadline_seconds

    def say_work(self, event: RoundClosed) -> list[str]:
        of_deadline = "" if self._deadline_seconds is None else f" of {say_seconds(self._deadline_seconds)}"
        return [
            f"round {event.round}" + (f"/{self._num_rounds}" if self._num_rounds else ""),
            say_count(event.num_learners, "learner"),
            say_count(event.num_samples, "sample"),
            say_seconds(event.seconds) + of_deadline,
        ]


def _say_result(event: RoundClosed) -> list[str]:
    accuracy = [] if event.accuracy is None else [f"accuracy {say_ratio(event.accuracy)}"]
    return [*accuracy, *([f"late: {say_names(event.late)}"] if event.late else [])]


class Printer:
    """Prints lines, but not a wait that was just told, nor very many of a kind in a row."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_kind: type[Event] | None = None
        self._last_line = ""
        self._num_alike = 0

    def tell(self, event: Event, line: str | None) -> None:
        """Print the event's line, if it has one."""
        if line is None or (isinstance(event, WaitingForLearners) and line == self._last_line):
            return
        if type(event) is not self._last_kind:
            if self._num_alike > _MAX_ALIKE:
                self._print(f"... and {self._num_alike - _MAX_ALIKE:,} more like these")
            self._last_kind, self._num_alike = type(event), 0
        self._num_alike += 1
        self._last_line = line
        if self._num_alike <= _MAX_ALIKE or isinstance(event, RoundClosed | EpochEnded | SplitEpochEnded):
            self._print(line)

    def _print(self, line: str) -> None:
        encoding = self._console.encoding  # of a log file it may be anything, and a name may not fit into it
        self._console.print(Text(line.encode(encoding, "replace").decode(encoding)), soft_wrap=True)
