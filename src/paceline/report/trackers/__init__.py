"""Trackers: readers of a run that keep its rows elsewhere, by name, import path or entry point."""

from paceline.report.rows import Row
from paceline.report.trackers.base import TrackedEnd, TrackedRun, Tracker
from paceline.report.trackers.registry import PRINTING, TRACKERS, find_trackers
from paceline.report.trackers.tracking import Tracking

__all__ = ["PRINTING", "TRACKERS", "Row", "TrackedEnd", "TrackedRun", "Tracker", "Tracking", "find_trackers"]
