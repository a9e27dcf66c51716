"""The folder of a gossip run: what was asked for, what its peers told, and a row for each of their epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from paceline.events import AnyEvent, EpochEnded
from paceline.monitor.event_folder import EventFolder, Layout
from paceline.monitor.recording import read_json

EPOCHS = (
    *("at", "learner", "epoch", "seconds", "num_samples", "ratio", "samples_per_second"),
    *("train_seconds", "rank_seconds", "exchange_seconds", "num_exchanges", "bytes_sent", "bytes_received"),
    *("cpu_seconds", "joules", "distance", "mass", "loss", "accuracy"),
)


def _epoch_row(event: AnyEvent) -> tuple[object, ...] | None:
    return tuple(getattr(event, column) for column in EPOCHS) if isinstance(event, EpochEnded) else None


class GossipFolder(EventFolder):
    """The files of one gossip run, of a fleet or of a single peer.

    - ``gossip.json``: the resolved job. It is written last, so a folder that has it is complete.
    - ``versions.json``: the code, the machine and the seed.
    - ``events.jsonl``: every event that the recorded peers told.
    - ``epochs.csv``: a row per peer and epoch, made from the events.
    - ``checkpoints``: a folder for whoever saves models.
    - ``report.html``: where the report goes.
    """

    layout: ClassVar[Layout] = Layout(
        kind="gossip run",
        settings="gossip.json",
        table="epochs.csv",
        columns=EPOCHS,
        make_rows=lambda: _epoch_row,
        subfolder="checkpoints",
        is_resumable=False,
    )

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.checkpoints = self._subfolder

    @property
    def job(self) -> dict[str, Any]:
        """The resolved job."""
        return read_json(self._settings_file)
