"""What happens in a run, as small typed events: the one thing that recorders, live tables and reports read.

Times are seconds. `at` counts from the start of the run on the clock that the run uses, real or virtual; after a
resume it goes on from the last recorded event. Events of the orchestrator tell what it can see. Events of a learner
(`DeviceMeasured`, `PhaseStarted`, `RoundSpent`) are told on the device only: a fleet that runs its learners itself
collects them, and a device that joined over the network keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

Phase: TypeAlias = Literal["benchmark", "download", "train", "upload", "idle"]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """Base of all events."""

    at: float


class RunStarted(Event, frozen=True, tag="run_started"):
    """The orchestrator is ready for learners.

    Attributes:
        job: the resolved job, as in the run folder.
        clock: whether times are real or virtual.
        first_round: 1, or the round at which an interrupted run goes on.
        num_parameters: of the model.
        num_shards: that the orchestrator serves; 0 if data stays on the devices.
    """

    job: dict[str, Any]
    clock: Literal["live", "virtual"]
    first_round: int
    num_parameters: int
    num_shards: int
    paceline: str


class LearnerJoined(Event, frozen=True, tag="learner_joined"):
    """A learner joined; `is_back` if one of that name was there before."""

    learner: str
    is_back: bool = False


class LearnerLeft(Event, frozen=True, tag="learner_left"):
    """A learner said goodbye, or has not been heard of."""

    learner: str
    reason: str


class WaitingForLearners(Event, frozen=True, tag="waiting_for_learners"):
    """A round cannot open yet."""

    round: int
    num_ready: int
    min_learners: int


class RoundOpened(Event, frozen=True, tag="round_opened"):
    """A round opened to the learners that are ready; `round` counts from 1."""

    round: int
    deadline_seconds: float
    num_learners: int


class ShardsTaken(Event, frozen=True, tag="shards_taken"):
    """A learner took the parameters and its shards, `seconds` after the round opened, for so many iterations."""

    round: int
    learner: str
    num_shards: int
    seconds: float
    iterations: int = 1


class UpdateAccepted(Event, frozen=True, tag="update_accepted"):
    """A learner's update was averaged in, `seconds` after the round opened.

    Attributes:
        num_samples: samples trained, counted once per pass.
    """

    round: int
    learner: str
    num_samples: int
    seconds: float


class UpdateRefused(Event, frozen=True, tag="update_refused"):
    """A learner's update was not used.

    Attributes:
        seconds: since its round opened; None if there is no such round.
        is_late: whether all that was wrong with it is the time.
    """

    round: int
    learner: str
    reason: str
    seconds: float | None = None
    is_late: bool = False


class RoundClosed(Event, frozen=True, tag="round_closed"):
    """A round is over: averaged, evaluated, saved.

    Attributes:
        seconds: from opening to the last update that counts, or to the deadline (and the overtime, if the job has any)
            if a learner was still awaited.
        truancy: (seconds − deadline) / deadline; below 0 if all were early. Late updates are told by `UpdateRefused`.
        staleness: the most that the iterations of two learners whose updates count differ by.
        average_staleness: the mean difference over all pairs of them.
        num_learners: that took work.
        late: learners that took work and whose update was not in.
        num_samples: samples trained by all whose update counts.
        loss: of the averaged model on the test data; None if not evaluated.
    """

    round: int
    seconds: float
    truancy: float
    num_learners: int
    num_updates: int
    num_samples: int
    num_shards: int
    staleness: float = 0.0
    average_staleness: float = 0.0
    late: tuple[str, ...] = ()
    loss: float | None = None
    accuracy: float | None = None


class RunEnded(Event, frozen=True, tag="run_ended"):
    """The run is over; `rounds` were closed in all."""

    reason: Literal["rounds done", "target accuracy reached", "stopped"]
    rounds: int
    loss: float | None = None
    accuracy: float | None = None


class DeviceMeasured(Event, frozen=True, tag="device_measured"):
    """A learner benchmarked itself (told on the device only).

    Attributes:
        profile: the fields of a `paceline.devices.Profile`.
    """

    learner: str
    profile: dict[str, Any]
    seconds: float


class PhaseStarted(Event, frozen=True, tag="phase_started"):
    """A learner turned to something else (told on the device only); round 0 is before the first."""

    learner: str
    round: int
    phase: Phase


class RoundSpent(Event, frozen=True, tag="round_spent"):
    """How a learner spent a round (told on the device only).

    Attributes:
        start_seconds: after the round opened.
        upload_seconds: None if the update did not arrive.
        is_halted: whether training stopped early to be in time.
        is_accepted: whether the orchestrator used the update.
    """

    learner: str
    round: int
    deadline_seconds: float
    start_seconds: float
    num_shards: int
    num_samples: int
    download_seconds: float
    train_seconds: float
    upload_seconds: float | None = None
    is_halted: bool = False
    is_accepted: bool = False


AnyEvent: TypeAlias = (
    RunStarted
    | LearnerJoined
    | LearnerLeft
    | WaitingForLearners
    | RoundOpened
    | ShardsTaken
    | UpdateAccepted
    | UpdateRefused
    | RoundClosed
    | RunEnded
    | DeviceMeasured
    | PhaseStarted
    | RoundSpent
)

Emit: TypeAlias = Callable[[AnyEvent], None]
"""Whoever is told of events; must return at once, and must not raise."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def to_line(event: AnyEvent) -> bytes:
    """The event as one line of JSON, newline included."""
    return _encoder.encode(event) + b"\n"


def from_line(line: bytes) -> AnyEvent:
    """The event in a line of JSON; raises `msgspec.ValidationError` or `msgspec.DecodeError` for any other line."""
    return _decoder.decode(line)


def from_lines(lines: Iterable[bytes]) -> Iterator[AnyEvent]:
    """The events of a file, up to a last line that a crash cut short."""
    for line in lines:
        if not line.endswith(b"\n"):
            return
        yield from_line(line)
