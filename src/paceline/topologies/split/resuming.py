"""What a trunk keeps after an epoch, and how a run goes on from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from paceline.errors import NothingToResume
from paceline.events import Event
from paceline.learning.averaging import State
from paceline.learning.checkpoints import round_name
from paceline.learning.scores import Scores
from paceline.topologies.base import Load, Recovered
from paceline.topologies.reporting.formatting import setting
from paceline.topologies.split.events import CutChosen, SplitEnded, SplitEpochEnded, SplitStarted
from paceline.topologies.split.jobs import SplitJob

_SOURCE = "source/"  # before the name of a source; the value is its number


@dataclass(frozen=True, kw_only=True)
class ResumedSplit:
    """A split run as it was after an epoch.

    Attributes:
        epoch: the last that is done.
        cut: where the model is cut; empty where it is not, or that is not chosen yet.
        sources: numbers of the sources that the model makes use of, by name, in the order of joining.
        state: what was learned.
        memory: what else the scheme needs.
        history: what was achieved in each epoch that was tested.
    """

    epoch: int
    cut: str
    sources: Mapping[str, int]
    state: State
    memory: State
    history: Sequence[Scores]


def memory_name(epoch: int) -> str:
    """Return the name under which is kept what a run needs to go on after an epoch, besides what was learned."""
    return f"{round_name(epoch)}.trunk"


def kept(memory: State, sources: Mapping[str, int]) -> State:
    """Return what is kept under that name."""
    return {**memory, **{f"{_SOURCE}{name}": torch.tensor(number) for name, number in sources.items()}}


def events_to_keep(events: Sequence[Event]) -> list[Event]:
    """Keep the events up to the last epoch after which all that was learned is at the trunk, and those of such epochs.

    All else after it is dropped: the epoch that was open happens again, and sources join again.
    """
    ends = [(index, event.epoch) for index, event in enumerate(events) if isinstance(event, SplitEpochEnded)]
    whole = [(index, epoch) for index, epoch in ends if _is_whole(events, epoch)]
    if not whole:
        return []
    last, last_epoch = whole[-1]
    rest = (event for event in events[last + 1 :] if 1 <= getattr(event, "epoch", 0) <= last_epoch)
    return [*events[: last + 1], *rest]


def recover(events: Sequence[Event]) -> Recovered:
    """Choose the events that stay; see `Topology.recover`. A run whose sources went as it ended is not over."""
    is_over = any(isinstance(event, SplitEnded) and event.reason != "sources gone" for event in events)
    return Recovered(events_to_keep(events), is_over=is_over)


def resumed(job: SplitJob, recovered: Recovered, load: Load) -> ResumedSplit | None:
    """Read what a run goes on from; None for its beginning. Raises `ConfigError` if it is over."""
    events = recovered.events
    ended = [event for event in events if isinstance(event, SplitEpochEnded)]
    if not ended:
        return None
    epoch = ended[-1].epoch
    history = [event.scores for event in ended if event.scores is not None]
    if recovered.is_over:
        _check_has_more(job, epoch, history)
    found = load(memory_name(epoch))
    sources = {name.removeprefix(_SOURCE): tensor for name, tensor in found.items() if name.startswith(_SOURCE)}
    numbers = {name: int(tensor) for name, tensor in sources.items()}
    chosen = [event.cut for event in events if isinstance(event, CutChosen)]
    return ResumedSplit(
        epoch=epoch,
        cut=chosen[-1] if chosen else "",
        sources=numbers,
        state=load(epoch),
        memory={name: tensor for name, tensor in found.items() if name not in {f"{_SOURCE}{one}" for one in numbers}},
        history=history,
    )


def _check_has_more(job: SplitJob, epoch: int, history: Sequence[Scores]) -> None:
    if epoch >= job.epochs:
        raise NothingToResume(f"all {job.epochs} epochs are done; there is nothing to resume")
    match job.early_stopping(history).reason:
        case "target reached":
            raise NothingToResume(f"target, {job.target}, is reached; there is nothing to resume")
        case "no improvement":
            raise NothingToResume(f"{job.watch} has not improved for {job.patience} tests; there is nothing to resume")


def _is_whole(events: Sequence[Event], epoch: int) -> bool:
    """Return whether the trunk had all that was learned after an epoch, by the job in the record."""
    started: dict[str, Any] = next((event.job for event in events if isinstance(event, SplitStarted)), {})
    every = setting(started, "split", "backup_epochs")
    return setting(started, "split", "scheme") == "images" or bool(every and epoch % every == 0)
