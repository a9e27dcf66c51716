"""Readers of a run's events: the run folder that keeps them, the report, and the live table.

None of them reaches into a run: a run tells each event to whoever listens, and behaves the same without a listener.
"""

from paceline.monitor.figures import LearnerRound, LearnerSummary, RoundSummary, Summary
from paceline.monitor.folder import Resumption, RunFolder
from paceline.monitor.lines import PlainLines
from paceline.monitor.live import LiveTable, watcher
from paceline.monitor.report import write_report
from paceline.monitor.summary import summarise

__all__ = [
    "LearnerRound",
    "LearnerSummary",
    "LiveTable",
    "PlainLines",
    "Resumption",
    "RoundSummary",
    "RunFolder",
    "Summary",
    "summarise",
    "watcher",
    "write_report",
]
