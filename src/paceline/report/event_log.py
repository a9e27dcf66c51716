"""Logs a run as lines of JSON: the events that others see as lines of text, with all their fields."""

from __future__ import annotations

import msgspec

from paceline import logs
from paceline.events import Event
from paceline.topologies.reporting.base import Progress


class EventLog:
    """Logs those events of a run that are worth a line."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def feed(self, event: Event, job: str = "") -> None:
        """Log an event; `job` names the job of a pool that it belongs to."""
        lines = list(self._progress.lines(event, job))
        if lines:
            fields = msgspec.to_builtins(event)
            name = fields.pop("event")
            logs.say(name, "\n".join(lines), fields={**({"job": job} if job else {}), **fields})
