"""Keeps a run for Weights & Biases, offline unless the user says otherwise."""

from __future__ import annotations

import os
import secrets

from paceline.extras import extra
from paceline.report.rows import Row
from paceline.report.trackers.base import TrackedEnd, TrackedRun, Tracker


class WandbTracker(Tracker):
    """A run of the project ``WANDB_PROJECT`` (``paceline``), in ``trackers/wandb`` of the run's folder.

    Nothing is sent unless ``WANDB_MODE`` says ``online``; ``wandb sync`` sends what is kept. The jobs of a pool are
    runs of one group.
    """

    def __init__(self) -> None:
        # Else wandb reports on itself to its makers, even where a run is kept offline.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        with extra("wandb"):
            import wandb

            self._wandb = wandb

    def start(self, run: TrackedRun) -> None:
        run.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = run.folder / f"run-id{f'-{run.job}' if run.job else ''}"
        if not (run.is_resumed and kept.exists()):
            kept.write_text(secrets.token_hex(4))
        mode = os.environ.get("WANDB_MODE") or "offline"
        self._run = self._wandb.init(
            id=kept.read_text(),
            project=os.environ.get("WANDB_PROJECT") or "paceline",
            name=run.title,
            group=run.name,
            job_type=run.kind,
            dir=run.folder,
            mode=mode,
            resume="allow" if run.is_resumed and mode == "online" else None,
            config=dict(run.settings),
            reinit="create_new",  # the user's own run, if there is one in this process, goes on
            settings=self._wandb.Settings(console="off", silent=True, save_code=False, disable_git=True),
        )
        # Tables grow at their own pace, so each has an axis of its own in place of one counter for all.
        self._run.define_metric("*", step_metric="step")

    def log(self, row: Row) -> None:
        self._run.log({**row.named_figures, "step": row.step, "at": row.at})

    def end(self, end: TrackedEnd) -> None:
        self._run.summary.update({**end.figures, "status": end.status, "ended": end.reason})
        self._run.finish(exit_code=0 if end.status == "finished" else 1)
