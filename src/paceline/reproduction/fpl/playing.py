"""Trials on virtual time, and a row of each epoch that is trained."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch

from paceline.events import Event
from paceline.fleets.base import SplitLaunch
from paceline.fleets.virtual_nodes import VirtualNodes
from paceline.learning import models
from paceline.learning.averaging import State
from paceline.learning.training import normalised
from paceline.reproduction.fpl import setting
from paceline.reproduction.fpl.setting import Case, devices_of, plan_of
from paceline.reproduction.keeping import kept
from paceline.reproduction.rows import Row
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split import SplitPlan, Trunk, view_of
from paceline.topologies.split.events import SplitEpochEnded

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, kw_only=True)
class SplitTrial:
    """What a run gave.

    Attributes:
        process_seconds: processor time of this process, which plays all nodes, by epoch.
    """

    plan: SplitPlan
    trunk: Trunk
    events: list[Event]
    process_seconds: list[float]

    def told(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


def play(case: Case, plan: SplitPlan | None = None) -> SplitTrial:
    """One trial; of the case's own plan, if no other is given."""
    chosen = plan_of(case) if plan is None else plan
    events: list[Event] = []
    moments: list[float] = []

    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, SplitEpochEnded):
            moments.append(time.process_time())

    start = time.process_time()
    trunk = VirtualNodes(devices_of(case)).run(SplitLaunch(plan=chosen, emit=emit))
    spans = [after - before for before, after in zip([start, *moments], moments, strict=False)]
    return SplitTrial(plan=chosen, trunk=trunk, events=events, process_seconds=spans)


def learning_rows(case: Case, *, is_kept: bool = True) -> list[Row]:
    """With all that is learned: a row for each epoch. They are kept for other experiments that need the same."""
    if not is_kept:
        return list(_learning_rows(case))
    data = plan_of(case).dataset
    key = ("fpl", tuple(case), zlib.crc32(data.x_train.tobytes() + data.x_test.tobytes()))
    return kept(key, (setting.__file__, __file__), lambda: list(_learning_rows(case)))


def _learning_rows(case: Case) -> Iterator[Row]:
    trial = play(case)
    ended = trial.told(SplitEpochEnded)
    for event in ended:
        assert event.loss is not None and event.accuracy is not None and not event.num_masked
        yield {
            "scheme": case.scheme,
            "epoch": event.epoch,
            "steps": event.num_steps,
            "seconds": round(event.seconds, 4),
            "loss": round(event.loss, 6),
            "accuracy": round(100 * event.accuracy, 4),
            # Where one answer is of one view; known of the last epoch only.
            "joint_accuracy": round(100 * joint_accuracy(trial), 4) if event is ended[-1] else None,
        }


def joint_accuracy(trial: SplitTrial) -> float:
    """How many test samples are known by all views together, as a ratio: what all models say of theirs is averaged.

    Where one model takes all views, that is what it says.
    """
    plan = trial.plan
    if plan.job.is_split:
        accuracy = trial.told(SplitEpochEnded)[-1].accuracy
        assert accuracy is not None
        return accuracy
    data = plan.dataset
    model = models.build(plan.task.model, data.input_shape, plan.task.num_classes, allowed=None).eval()
    total = torch.zeros(len(data.y_test), plan.task.num_classes)
    for number, joined in enumerate(trial.told(LearnerJoined), 1):
        model.load_state_dict(_model_of(trial.trunk.state, joined.learner))
        x = normalised(view_of(data, plan.terms(number, plan.cuts), number).test.x, plan.task.normalisation)
        with torch.inference_mode():
            total += torch.softmax(model(x), 1)
    return float((total.argmax(1).numpy() == data.y_test).mean())


def _model_of(state: State, source: str) -> State:
    """A source's model; the one of all if it has none of its own."""
    own = f"sources.{source}."
    return {name.removeprefix(own): tensor for name, tensor in state.items() if name.startswith(own)} or state
