"""Trials on virtual time, and a row of each epoch that is trained."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from paceline.events import Event
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.averaging import State
from paceline.learning.local_model import LocalModel
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split.events import SplitEpochEnded
from paceline.topologies.split.prepared import PreparedSplit
from paceline.topologies.split.samples import as_tensor, view_of
from paceline.topologies.split.topology import SplitPlan
from papers.fpl import setting
from papers.fpl.setting import Case, devices_of, prepared
from reproduction.keeping import kept
from reproduction.rows import Row
from reproduction.trials import Trial, checksum, play


@dataclass(frozen=True, kw_only=True)
class SplitTrial(Trial):
    """A run of a split job.

    Attributes:
        process_seconds: processor time of this process, which runs all nodes, by epoch.
    """

    prepared: PreparedSplit
    process_seconds: list[float]


def play_case(case: Case, job: PreparedSplit | None = None) -> SplitTrial:
    """Run one trial; of the case's own job, if no other is given."""
    chosen = prepared(case) if job is None else job
    moments: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, SplitEpochEnded):
            moments.append(time.process_time())

    start = time.process_time()
    trial = play(SplitPlan(chosen), VirtualFleet(devices_of(case)), watch)
    spans = [after - before for before, after in zip([start, *moments], moments, strict=False)]
    return SplitTrial(prepared=chosen, events=trial.events, states=trial.states, process_seconds=spans)


def learning_rows(case: Case, *, is_kept: bool = True) -> list[Row]:
    """Train, and return a row for each epoch; kept for other experiments that need the same."""
    if not is_kept:
        return list(_learning_rows(case))
    key = ("fpl", tuple(case), checksum(prepared(case).dataset))
    return kept(key, (setting.__file__, __file__), lambda: list(_learning_rows(case)))


def _learning_rows(case: Case) -> Iterator[Row]:
    trial = play_case(case)
    ended = trial.events_of(SplitEpochEnded)
    for event in ended:
        scores = event.scores
        assert scores is not None and not event.num_masked
        yield {
            "scheme": case.scheme,
            "epoch": event.epoch,
            "steps": event.num_steps,
            "seconds": round(event.seconds, 4),
            "loss": round(scores.loss, 6),
            "accuracy": round(100 * scores.metrics["accuracy"], 4),
            # Where one answer is of one view; known of the last epoch only.
            "joint_accuracy": round(100 * joint_accuracy(trial), 4) if event is ended[-1] else None,
        }


def joint_accuracy(trial: SplitTrial) -> float:
    """Return the accuracy of all views together, as a ratio: the answers of all models are averaged.

    Where one model takes all views, it is that model's accuracy.
    """
    job = trial.prepared
    if job.job.is_split:
        scores = trial.events_of(SplitEpochEnded)[-1].scores
        assert scores is not None
        return scores.metrics["accuracy"]
    model, labels = LocalModel(job.training, allowed=None), as_tensor(job.dataset.test.labels())
    model.module.eval()
    total = torch.zeros(len(labels), job.training.num_outputs)
    for number, joined in enumerate(trial.events_of(LearnerJoined), 1):
        model.load(_model_of(trial.states[-1], joined.learner))
        x = as_tensor(view_of(job.dataset, job.terms(number, job.cuts), number).test.x)
        with torch.inference_mode():
            total += torch.softmax(model.module(x), 1)
    return float((total.argmax(1) == labels).float().mean())


def _model_of(state: State, source: str) -> State:
    """Pick a source's model; the common one if it has none of its own."""
    own = f"sources.{source}."
    return {name.removeprefix(own): tensor for name, tensor in state.items() if name.startswith(own)} or state
