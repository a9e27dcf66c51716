"""What a trunk keeps after an epoch, and how a run goes on from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from paceline.errors import NothingToResume
from paceline.events import Event
from paceline.learning.averaging import State
from paceline.learning.checkpoints import round_name
from paceline.learning.scores import Scores
from paceline.topologies.base import Load, Recovered
from paceline.topologies.recovery import Notes, newest_whole
from paceline.topologies.split.events import SplitEnded, SplitEpochEnded, SplitStarted
from paceline.topologies.split.jobs import SplitJob

_SOURCE = "source/"  # before the name of a source; the value is its number


class EpochNotes(Notes, frozen=True, kw_only=True):
    """What is kept with what was learned after an epoch.

    Attributes:
        started: the event with which the run began, or went on.
        ended: the event that says that the epoch has ended.
        cut: where the model is cut; empty where it is not.
        history: scores that early stopping goes by.
    """

    started: SplitStarted
    ended: SplitEpochEnded
    cut: str
    history: Sequence[Scores] = ()


@dataclass(frozen=True, kw_only=True)
class ResumedSplit:
    """A split run as it was after an epoch.

    Attributes:
        epoch: the last that is done.
        cut: where the model is cut; empty where it is not, or that is not chosen yet.
        sources: numbers of the sources that the model makes use of, by name, in the order of joining.
        state: what was learned.
        memory: what else the scheme needs.
        history: scores that early stopping goes by.
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


def is_kept(job: SplitJob, epoch: int) -> bool:
    """Return whether all that was learned is at the trunk after an epoch, so that the run can go on from there."""
    return job.has_copies and (job.scheme == "images" or epoch % job.backup_epochs == 0)


def recover(job: SplitJob, events: Sequence[Event], load: Load) -> Recovered:
    """Choose the newest epoch of which all is whole, and the events that stay; see `Topology.recover`.

    A run whose sources went as it ended is not over.
    """
    recorded = {event.epoch for event in events if isinstance(event, SplitEpochEnded) and is_kept(job, event.epoch)}

    def read(epoch: int) -> EpochNotes:
        notes = EpochNotes.read(load, epoch)
        load(memory_name(epoch))
        return notes

    found = newest_whole(recorded.union(load.rounds), read, "epoch")
    if found is None:
        return Recovered([])
    ends = any(isinstance(event, SplitEnded) and event.reason != "sources gone" for event in events)
    return Recovered(
        _events_until(events, found.content),
        found.lost,
        [epoch for epoch in load.rounds if epoch > found.number],
        is_over=ends and not found.damage,
    )


def _events_until(events: Sequence[Event], notes: EpochNotes) -> list[Event]:
    """Keep the events up to the end of an epoch, and those after it that are of such epochs.

    All else after it is dropped: the epoch that was open happens again, and sources join again. What readers of a
    record rely on is put in where it is lost: the start of the run, and the end of the epoch.
    """
    ended = notes.ended
    last = next((at for at, event in enumerate(events) if _ends(event, ended.epoch)), None)
    if last is None:  # the process ended between saving and recording it, or the record was cut
        kept = [*(event for event in events if event.at <= ended.at and _epoch_of(event) <= ended.epoch), ended]
    else:
        rest = (event for event in events[last + 1 :] if 1 <= _epoch_of(event) <= ended.epoch)
        kept = [*events[: last + 1], *rest]
    return kept if any(isinstance(event, SplitStarted) for event in kept) else [notes.started, *kept]


def _ends(event: Event, epoch: int) -> bool:
    return isinstance(event, SplitEpochEnded) and event.epoch == epoch


def _epoch_of(event: Event) -> int:
    return int(getattr(event, "epoch", getattr(event, "round", 0)))


def resumed(job: SplitJob, recovered: Recovered, load: Load) -> ResumedSplit | None:
    """Read what a run goes on from; None for its beginning. Raises `ConfigError` if it is over."""
    ended = [event.epoch for event in recovered.events if isinstance(event, SplitEpochEnded)]
    if not ended:
        return None
    epoch = max(ended)
    notes, found = EpochNotes.read(load, epoch), load(memory_name(epoch))
    if recovered.is_over:
        _check_has_more(job, epoch, notes.history)
    sources = {name.removeprefix(_SOURCE): tensor for name, tensor in found.items() if name.startswith(_SOURCE)}
    numbers = {name: int(tensor) for name, tensor in sources.items()}
    return ResumedSplit(
        epoch=epoch,
        cut=notes.cut,
        sources=numbers,
        state=load(epoch),
        memory={name: tensor for name, tensor in found.items() if name not in {f"{_SOURCE}{one}" for one in numbers}},
        history=notes.history,
    )


def _check_has_more(job: SplitJob, epoch: int, history: Sequence[Scores]) -> None:
    if epoch >= job.epochs:
        raise NothingToResume(f"all {job.epochs} epochs are done; there is nothing to resume")
    match job.early_stopping(history).reason:
        case "target reached":
            raise NothingToResume(f"target, {job.target}, is reached; there is nothing to resume")
        case "no improvement":
            raise NothingToResume(f"{job.watch} has not improved for {job.patience} tests; there is nothing to resume")
