"""What training takes, by short runs: time, bytes and processor time of two epochs, with few samples and with more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from paceline.topologies.split.events import TRUNK, NodeSpent, SplitEpochEnded
from papers.fpl.playing import play_case
from papers.fpl.setting import NUM_SOURCES, Case, prepared, shortened
from reproduction.rows import Row


def cost_rows(case: Case, counts: Sequence[int]) -> Iterator[Row]:
    """What two epochs take with so many samples, for each of these counts; it does not depend on what is learned.

    Everything but the processor time that was really used is of virtual time, and is the same whenever it is run.
    """
    for num_samples in counts:
        short = shortened(prepared(case), num_samples)
        job = msgspec.structs.replace(short.job, epochs=2, patience=None)
        trial = play_case(case, replace(short, job=job))
        for ended, process_seconds in zip(trial.events_of(SplitEpochEnded), trial.process_seconds, strict=True):
            spent = [event for event in trial.events_of(NodeSpent) if event.epoch == ended.epoch]
            trunk = [event for event in spent if event.learner == TRUNK]
            sources = [event for event in spent if event.learner != TRUNK]
            assert not ended.num_masked and len(trunk) == 1 and len(sources) == NUM_SOURCES
            yield {
                "scheme": case.scheme,
                "num_samples": num_samples,
                "epoch": ended.epoch,
                "seconds": round(ended.seconds, 6),
                # Trunk and sources work in turn, and sources are alike: that is what nobody else could shorten.
                "compute_seconds": round(trunk[0].compute_seconds + max(event.compute_seconds for event in sources), 6),
                "num_bytes": sum(event.bytes_sent + event.bytes_received for event in sources),
                "cpu_seconds": round(sum(event.cpu_seconds for event in spent), 6),
                "process_seconds": round(process_seconds, 4),
            }


def num_parameters(case: Case) -> dict[str, int]:
    """Of all nodes together, and of the junction."""
    job = prepared(case)
    names = [f"source {number}" for number in range(NUM_SOURCES)]
    parts = job.num_parameters(job.cuts[0] if job.cuts else "", names)
    return {"all": NUM_SOURCES * parts["branch"] + parts["junction"] + parts["trunk"], "junction": parts["junction"]}
