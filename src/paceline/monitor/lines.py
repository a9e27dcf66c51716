"""Tells a run in plain lines, for logs and pipes: no control codes, one line per thing worth telling."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from paceline.events import AnyEvent, RoundClosed, RoundOpened, RunEnded, RunStarted, WaitingForLearners
from paceline.monitor.wording import say_count, say_event, say_names, say_ratio, say_seconds, setting

_MAX_ALIKE = 20


class PlainLines:
    """A line per closed round, join, leave, refusal and wait; of very many alike in a row, the first and how many."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._num_rounds: int | None = None
        self._deadline_seconds: float | None = None
        self._last_kind: type[AnyEvent] | None = None
        self._last_line = ""
        self._num_alike = 0

    def tell(self, event: AnyEvent) -> None:
        """Print the event's line, if it has one."""
        if isinstance(event, RunStarted):
            self._num_rounds = setting(event.job, "job", "rounds")
        elif isinstance(event, RoundOpened):
            self._deadline_seconds = event.deadline_seconds
        line = self._line(event)
        if line is None or (isinstance(event, WaitingForLearners) and line == self._last_line):
            return
        if type(event) is not self._last_kind:
            if self._num_alike > _MAX_ALIKE:
                self._print(f"... and {self._num_alike - _MAX_ALIKE:,} more like these")
            self._last_kind, self._num_alike = type(event), 0
        self._num_alike += 1
        self._last_line = line
        if self._num_alike <= _MAX_ALIKE or isinstance(event, RoundClosed):
            self._print(line)

    def _print(self, line: str) -> None:
        encoding = self._console.encoding  # of a log file it may be anything, and a name may not fit into it
        self._console.print(Text(line.encode(encoding, "replace").decode(encoding)), soft_wrap=True)

    def _line(self, event: AnyEvent) -> str | None:
        if isinstance(event, RoundClosed):
            return self._round_line(event)
        if isinstance(event, RunEnded):
            return f"ended: {event.reason}, {say_count(event.rounds, 'round')} in {say_seconds(event.at)}"
        return say_event(event)

    def _round_line(self, event: RoundClosed) -> str:
        of_deadline = "" if self._deadline_seconds is None else f" of {say_seconds(self._deadline_seconds)}"
        parts = [
            f"round {event.round}" + (f"/{self._num_rounds}" if self._num_rounds else ""),
            say_count(event.num_learners, "learner"),
            say_count(event.num_samples, "sample"),
            say_seconds(event.seconds) + of_deadline,
        ]
        if event.loss is not None:
            parts.append(f"loss {event.loss:.3f}")
        if event.accuracy is not None:
            parts.append(f"accuracy {say_ratio(event.accuracy)}")
        if event.late:
            parts.append(f"late: {say_names(event.late)}")
        return "  ".join(parts)
