"""Keeps a run in MLflow: in files in the run's folder, or where the user's MLflow is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from paceline.extras import extra
from paceline.report.rows import Row
from paceline.report.trackers.base import TrackedEnd, TrackedRun, Tracker

_UNFIT = re.compile(r"[^/\w.\- :]")
_MAX_AT_ONCE = 100  # MLflow takes no more parameters in a call
_MAX_VALUE_LENGTH = 6000
_STATUSES = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class MlflowTracker(Tracker):
    """A run in the experiment ``MLFLOW_EXPERIMENT_NAME`` (``paceline``), with a child for each job of a pool.

    It is kept where ``MLFLOW_TRACKING_URI`` says, else in files in ``trackers/mlflow`` of the run's folder.
    """

    def __init__(self) -> None:
        # Newer releases of MLflow refuse to open files without this, in favour of databases that need more packages.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        # Else it reports on its use to its makers, wherever a run is kept.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        with extra("mlflow"):
            from mlflow import entities, tracking

            self._entities, self._tracking = entities, tracking

    def start(self, run: TrackedRun) -> None:
        run.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        uri = os.environ.get("MLFLOW_TRACKING_URI") or (run.folder / "mlruns").absolute().as_uri()
        self._client = self._tracking.MlflowClient(tracking_uri=uri)
        self._began_at, self._last = run.began_at, (0.0, 0)
        kept = run.folder / f"run-id{f'-{run.job}' if run.job else ''}"
        if run.is_resumed and kept.exists():
            self._id = kept.read_text()
            self._client.update_run(self._id, status="RUNNING")
            return
        parent = {"mlflow.parentRunId": (run.folder / "run-id").read_text()} if run.job else {}
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or "paceline")
        tags = {"paceline.kind": run.kind, **parent}
        began_at = round(1000 * run.began_at)
        created = self._client.create_run(experiment, start_time=began_at, run_name=run.title, tags=tags)
        self._id = created.info.run_id
        kept.write_text(self._id)
        values = [(_allowed(key), str(value)[:_MAX_VALUE_LENGTH]) for key, value in run.settings.items()]
        params = [self._entities.Param(key, value) for key, value in values]
        for first in range(0, len(params), _MAX_AT_ONCE):
            self._client.log_batch(self._id, params=params[first : first + _MAX_AT_ONCE])

    def log(self, row: Row) -> None:
        self._last = (row.at, row.step)
        self._log(row.named_figures)

    def end(self, end: TrackedEnd) -> None:
        self._log({f"summary/{name}": figure for name, figure in end.figures.items()})
        self._client.set_tag(self._id, "paceline.ended", end.reason[:_MAX_VALUE_LENGTH])
        self._client.set_terminated(self._id, _STATUSES[end.status])

    def _experiment(self, name: str) -> str:
        known = self._client.get_experiment_by_name(name)
        return self._client.create_experiment(name) if known is None else str(known.experiment_id)

    def _log(self, figures: Mapping[str, float]) -> None:
        at, step = self._last
        milliseconds = round(1000 * (self._began_at + at))
        metrics = [self._entities.Metric(_allowed(name), value, milliseconds, step) for name, value in figures.items()]
        self._client.log_batch(self._id, metrics=metrics)


def _allowed(name: str) -> str:
    """Write a name as MLflow takes it: ``recall@5`` is ``recall_at_5`` there."""
    return _UNFIT.sub("_", name.replace("@", "_at_"))
