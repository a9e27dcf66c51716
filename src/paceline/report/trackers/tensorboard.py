"""Writes a run as event files of TensorBoard."""

from __future__ import annotations

from typing import Any

from paceline.extras import extra
from paceline.report.rows import Row
from paceline.report.trackers.base import TrackedEnd, TrackedRun, Tracker

_STATUSES = {"finished": "STATUS_SUCCESS", "interrupted": "STATUS_UNKNOWN", "failed": "STATUS_FAILURE"}


class TensorBoardTracker(Tracker):
    """Event files in ``trackers/tensorboard`` of the run's folder, and those of a pool's jobs in folders beside them.

    Times are those of the run's clock, so that a run on virtual time is as long there as it was for its devices.
    """

    def __init__(self) -> None:
        with extra("tensorboard"):
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2, summary_v2
            from tensorboard.summary.writer import event_file_writer

            self._events, self._summaries, self._writers = event_pb2, summary_pb2, event_file_writer
            self._make_settings, self._metadata = summary_v2.hparams_pb, metadata
            self._statuses, self._hparams = api_pb2.Status, plugin_data_pb2

    def start(self, run: TrackedRun) -> None:
        self._began_at, self._is_behind, self._last = run.began_at, run.is_resumed, (0.0, 0)
        self._writer = self._writers.EventFileWriter(str(run.folder / run.job))
        self._write(summary=self._make_settings(dict(run.settings), trial_id=run.title))
        self._writer.flush()

    def log(self, row: Row) -> None:
        self._last = (row.at, row.step)
        if self._is_behind:  # what was written of rounds that were lost gives way to those that come now
            self._is_behind = False
            self._write(session_log=self._events.SessionLog(status=self._events.SessionLog.START))
        self._write(summary=self._scalars(row.named_figures))
        self._writer.flush()

    def end(self, end: TrackedEnd) -> None:
        self._write(summary=self._scalars({f"summary/{name}": figure for name, figure in end.figures.items()}))
        status = self._statuses.Value(_STATUSES[end.status])
        ended = self._hparams.SessionEndInfo(status=status, end_time_secs=self._began_at + self._last[0])
        value = self._summaries.Summary.Value(
            tag=self._metadata.SESSION_END_INFO_TAG,
            metadata=self._metadata.create_summary_metadata(self._hparams.HParamsPluginData(session_end_info=ended)),
            tensor=self._metadata.NULL_TENSOR,
        )
        self._write(summary=self._summaries.Summary(value=[value]))
        self._writer.close()

    def _scalars(self, figures: dict[str, float]) -> Any:
        values = [self._summaries.Summary.Value(tag=name, simple_value=figure) for name, figure in figures.items()]
        return self._summaries.Summary(value=values)

    def _write(self, **content: Any) -> None:
        at, step = self._last
        self._writer.add_event(self._events.Event(wall_time=self._began_at + at, step=step, **content))
