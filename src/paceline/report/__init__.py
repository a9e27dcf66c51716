"""Readers of the events of runs: folders, pages, the live table and lines, the same for every topology.

None of them reaches into a run: a run passes each event on, and behaves the same without a reader.
"""

from paceline.report.folder import START, RunFolder
from paceline.report.lines import LinePrinter
from paceline.report.live import LiveTable, show_progress
from paceline.report.notebook import frame, live_page, progress_callback
from paceline.report.page import make_page, write_report
from paceline.topologies.reporting.base import Summary

__all__ = [
    "START",
    "LinePrinter",
    "LiveTable",
    "RunFolder",
    "Summary",
    "frame",
    "live_page",
    "make_page",
    "progress_callback",
    "show_progress",
    "write_report",
]
