"""How a run of one job goes on after it was interrupted: after the newest round that is whole.

A checkpoint says how its round closed, and what is decided by earlier rounds (early stopping, privacy).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from paceline.errors import ConfigError, NothingToResume
from paceline.events import Event
from paceline.learning.checkpoints import round_name
from paceline.learning.divergence import are_finite
from paceline.learning.scores import Scores
from paceline.learning.update_validation import why_unlike
from paceline.topologies.base import Load, Recovered
from paceline.topologies.parallel.events import RoundClosed, RoundOpened, RunEnded, RunStarted, UpdateKept
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from paceline.topologies.recovery import Notes, newest_whole
from paceline.topologies.reporting.formatting import format_count


class RoundNotes(Notes, frozen=True, kw_only=True):
    """What is kept with the parameters after a round.

    Attributes:
        started: the event with which the run began, or went on.
        closed: the event that says that the round has closed.
        history: scores that early stopping goes by.
        num_rounds: number of rounds with an update of a learner, by its name, where privacy depends on it.
    """

    started: RunStarted
    closed: RoundClosed
    history: Sequence[Scores] = ()
    num_rounds: Mapping[str, int] = {}

    @classmethod
    def of(
        cls, started: RunStarted, closed: RoundClosed, history: Iterable[Scores], num_rounds: Mapping[str, int]
    ) -> RoundNotes:
        """Note what can be written: figures that are NaN or infinite are left out."""
        finite = [
            Scores(one.loss, {name: figure for name in one.metrics if (figure := one.figure(name)) is not None})
            for one in history
        ]
        return cls(started=started, closed=closed, history=finite, num_rounds=num_rounds)


def memory_name(round: int) -> str:
    """Return the name under which the aggregation's memory after a round is saved."""
    return f"{round_name(round)}.aggregation"


def events_to_keep(events: Sequence[Event]) -> list[Event]:
    """Keep the events of closed rounds: all up to the last `RoundClosed`, and those after it that are of such.

    All else after it is dropped: the round that was open happens again, learners join again, and an end is none.
    """
    closings = [(index, event.round) for index, event in enumerate(events) if isinstance(event, RoundClosed)]
    if not closings:
        return []
    last, last_round = closings[-1]
    rest = (event for event in events[last + 1 :] if 1 <= getattr(event, "round", 0) <= last_round)
    kept = (*events[: last + 1], *rest)
    # A late update that waited for a round that happens again is lost.
    return [event for event in kept if not isinstance(event, UpdateKept) or event.counts_in <= last_round]


def recover(job: Job, events: Sequence[Event], load: Load) -> Recovered:
    """Choose the newest round of which all is whole, and the events that stay; see `Topology.recover`."""
    closed = {event.round for event in events if isinstance(event, RoundClosed)}
    ends = [event.rounds for event in events if isinstance(event, RunEnded)]

    def read(number: int) -> RoundNotes:
        notes = RoundNotes.read(load, number)
        if job.aggregation.remembers:  # its memory belongs to the round
            load(memory_name(number))
        return notes

    found = newest_whole(closed.union(load.rounds), read, "round")
    if found is None:
        return Recovered([], is_over=0 in ends)
    number, notes, lost = found.number, found.content, found.lost
    without = len(set(range(1, number)) - closed)
    if without:
        lost.append(f"the record of {format_count(without, 'round')} up to round {number} is lost; the model is not")
    until = [event for event in events if not (isinstance(event, RoundClosed) and event.round > number)]
    if number not in closed:  # the process ended between saving and recording it, or the record was cut
        until = [event for event in until if getattr(event, "round", 0) <= number]
        until.append(notes.closed)
    kept = list(_completed(events_to_keep(until), notes.started, job.deadline_seconds))
    is_over = number in closed and number in ends
    return Recovered(kept, lost, [one for one in load.rounds if one > number], is_over)


def _completed(events: Sequence[Event], started: RunStarted, deadline_seconds: float) -> Iterator[Event]:
    """Put in what readers of a record rely on, where it is lost: the start of the run, and of each closed round."""
    if not any(isinstance(event, RunStarted) for event in events):
        yield started
    opened: set[int] = set()
    for event in events:
        if isinstance(event, RoundOpened):
            opened.add(event.round)
        elif isinstance(event, RoundClosed) and event.round not in opened:
            at, learners = max(event.at - event.seconds, 0.0), event.num_learners
            yield RoundOpened(at=at, round=event.round, deadline_seconds=deadline_seconds, num_learners=learners)
        yield event


def last_closed(events: Sequence[Event]) -> int:
    """Return the number of the last round that was closed; 0 if none was."""
    return max((event.round for event in events if isinstance(event, RoundClosed)), default=0)


def check_has_more(job: Job, last: int, load: Load) -> None:
    """Raise `ConfigError` if a job has nothing to do after a round."""
    if last >= job.rounds:
        raise NothingToResume(f"all {job.rounds} rounds are done; there is nothing to resume")
    match job.early_stopping(RoundNotes.read(load, last).history).reason:
        case "target reached":
            raise NothingToResume(f"target, {job.target}, is reached; there is nothing to resume")
        case "no improvement":
            raise NothingToResume(f"{job.watch} has not improved for {job.patience} rounds; there is nothing to resume")


def prepare_resumed(job: Job, last: int, load: Load) -> PreparedJob:
    """Make a job ready to go on after a round; raises `ConfigError` if its checkpoint is not of this job's model."""
    notes, state = RoundNotes.read(load, last), load(last)
    # What does not travel is that of the start, whose file may be gone: the checkpoint has it, too.
    prepared = prepare_job(job, state if job.model.start is not None else None)
    wrong = why_unlike(state, prepared.state) or (None if are_finite(state) else "it holds NaN or infinity")
    if wrong is not None:
        raise ConfigError(f"the checkpoint of round {last} is not one of this job's model: {wrong}")
    memory = load(memory_name(last)) if job.aggregation.remembers else {}
    return replace(prepared, state=state, memory=memory, history=notes.history, num_rounds=notes.num_rounds)
