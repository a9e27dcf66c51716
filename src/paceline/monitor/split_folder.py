"""The folder of a split run: what was asked for, what its nodes told, and tables of their epochs."""

from __future__ import annotations

from typing import ClassVar

from paceline.monitor.event_folder import JobFolder, Layout
from paceline.monitor.recording import table_of
from paceline.topologies.split.events import NodeSpent, SplitEpochEnded

EPOCHS = (
    *("at", "epoch", "seconds", "num_steps", "num_samples", "num_sources", "num_masked", "train_loss"),
    *("test_seconds", "loss", "accuracy"),
)
NODES = (
    *("at", "learner", "epoch", "seconds", "compute_seconds", "wait_seconds"),
    *("bytes_sent", "bytes_received", "cpu_seconds", "joules"),
)


class SplitFolder(JobFolder):
    """The files of one split run, of a fleet or of a single node.

    - ``split.json``: the resolved job. It is written last, so a folder that has it is complete.
    - ``versions.json``: the code, the machine and the seed.
    - ``events.jsonl``: every event that the recorded nodes told.
    - ``epochs.csv``: a row per epoch, made from the events.
    - ``nodes.csv``: a row per node and epoch, made from the events.
    - ``checkpoints``: a folder for whoever saves models.
    - ``report.html``: where the report goes.
    """

    layout: ClassVar[Layout] = Layout(
        kind="split run",
        settings="split.json",
        tables=(table_of("epochs.csv", SplitEpochEnded, EPOCHS), table_of("nodes.csv", NodeSpent, NODES)),
        subfolder="checkpoints",
        is_resumable=False,
    )
