"""The folder of a gossip run: what was asked for, what its peers told, and a row for each of their epochs."""

from __future__ import annotations

from typing import ClassVar

from paceline.monitor.event_folder import JobFolder, Layout
from paceline.monitor.recording import table_of
from paceline.topologies.gossip.events import EpochEnded

EPOCHS = (
    *("at", "learner", "epoch", "seconds", "num_samples", "ratio", "samples_per_second"),
    *("train_seconds", "rank_seconds", "exchange_seconds", "num_exchanges", "bytes_sent", "bytes_received"),
    *("cpu_seconds", "joules", "distance", "mass", "loss", "accuracy"),
)


class GossipFolder(JobFolder):
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
        tables=(table_of("epochs.csv", EpochEnded, EPOCHS),),
        subfolder="checkpoints",
        is_resumable=False,
    )
