"""The folder of a pool: its rules, what happened between its jobs, who was paid, and a run folder for each job."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, ClassVar

from paceline.monitor.event_folder import EventFolder, Layout
from paceline.monitor.folder import RunFolder
from paceline.monitor.recording import read_json, table_of
from paceline.topologies.parallel.events import LearnerPaid

LEDGER = ("at", "job", "round", "learner", "num_shards", "num_samples", "shards", "price", "amount")


class PoolFolder(EventFolder):
    """The files of one pool.

    - ``pool.json``: the resolved pool. It is written last, so a folder that has it is complete.
    - ``versions.json``: the code, the machine and the seed.
    - ``events.jsonl``: every event of the pool itself.
    - ``ledger.csv``: a row per learner and round of a job, made from the events.
    - ``jobs``: a run folder per job, named for it.
    - ``report.html``: where the report goes.
    """

    layout: ClassVar[Layout] = Layout(
        kind="pool",
        settings="pool.json",
        tables=(table_of("ledger.csv", LearnerPaid, LEDGER),),
        subfolder="jobs",
        is_resumable=False,
    )

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._made: list[RunFolder] = []

    @property
    def pool(self) -> dict[str, Any]:
        """The resolved pool."""
        return read_json(self._settings_file)

    def job(self, name: str, tables: dict[str, Any]) -> RunFolder:
        """Make the run folder of a job, ready to record; it is closed with the pool's.

        Args:
            tables: the resolved job.
        """
        assert self._recorder is not None, "a folder that was opened is for reading"
        folder = RunFolder.create(self._subfolder, name, tables)
        self._made.append(folder)
        return folder

    def jobs(self) -> dict[str, RunFolder]:
        """The run folders of all jobs, by name, for reading."""
        complete = sorted(self._subfolder.glob(f"*/{RunFolder.layout.settings}"))
        return {settings.parent.name: RunFolder.open(settings.parent) for settings in complete}

    def close(self) -> None:
        """Stop recording, jobs included; raises `PacelineError` if some of it could not be written."""
        made, self._made = self._made, []
        with contextlib.ExitStack() as stack:
            for folder in made:
                stack.callback(folder.close)
            super().close()
