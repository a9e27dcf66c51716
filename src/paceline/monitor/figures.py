"""The figures of a run: what learners, rounds and the whole came to, as plain data."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from paceline.events import Event
from paceline.monitor.footprint import Footprint
from paceline.topologies.parallel.events import RunEnded, RunStarted

Outcome: TypeAlias = Literal["pending", "accepted", "late", "refused", "missing"]
"""What became of a learner's work: not known yet, averaged in, came too late, was rubbish or a cheat, or never came."""


class LearnerRound(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a learner did in a round. Seconds without more said are durations.

    Attributes:
        num_samples: trained, as far as told.
        start_seconds: when it began, after the round opened.
        arrival_seconds: when its update came, after the round opened; None if none came.
        download_seconds: None, as are the next two, if the learner did not tell; then all that can be seen from
            outside is the stretch from start to arrival.
        upload_seconds: None also if the update did not arrive.
        bytes_sent: None, as are the next three, if the learner did not tell.
    """

    round: int
    num_shards: int = 0
    local_epochs: int = 1
    num_samples: int = 0
    start_seconds: float = 0.0
    arrival_seconds: float | None = None
    download_seconds: float | None = None
    train_seconds: float | None = None
    upload_seconds: float | None = None
    is_halted: bool = False
    bytes_sent: int | None = None
    bytes_received: int | None = None
    cpu_seconds: float | None = None
    joules: float | None = None
    outcome: Outcome = "pending"

    @property
    def is_told(self) -> bool:
        """Whether the learner told how it spent the round."""
        return self.download_seconds is not None

    @property
    def busy_seconds(self) -> float | None:
        """From start to the arrival of the update; None if none came."""
        return None if self.arrival_seconds is None else self.arrival_seconds - self.start_seconds


class LearnerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a learner did in the run.

    Attributes:
        rounds: those in which it took work, in order.
        num_samples: of its updates that were averaged in.
        num_late: rounds closed without its update though it had taken work.
        deadline_use: mean of the time from start to arrival over the deadline; None if no update ever came.
        profile: the fields of `paceline.devices.Profile`, None if not told.
        benchmark_seconds: how long measuring it took, None if not told.
        footprint: what its rounds used up, as far as told.
        power: what its energy is told by, as `DeviceMeasured` has it; None if not told.
        left_because: why it was not there at the end, None if it was.
    """

    name: str
    rounds: tuple[LearnerRound, ...]
    num_shards: int
    num_samples: int
    num_late: int
    num_refused: int
    deadline_use: float | None
    profile: dict[str, Any] | None
    benchmark_seconds: float | None
    footprint: Footprint
    power: dict[str, Any] | None
    left_because: str | None


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """The five metrics by which the thesis on Axon (§4.3) compares allocations; None without a closed round.

    Attributes:
        training_seconds: that a round took, on average.
        satisfaction: rounds in which all was trained by the deadline, over all rounds.
        fulfilment: samples trained over samples wanted, the mean of the rounds.
        drop_rate: what is missing to that.
        occupancy: of the learners' time in a round, the part until their updates came; the mean of the rounds.
    """

    training_seconds: float | None
    satisfaction: float | None
    fulfilment: float | None
    drop_rate: float | None
    occupancy: float | None

    def as_metrics(self) -> dict[str, float | None]:
        """These five alone, by name."""
        return {name: getattr(self, name) for name in Metrics.__struct_fields__}


class RoundSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A closed round.

    Attributes:
        truancy: of the last update that came, late ones included: (seconds of that − deadline) / deadline.
        staleness: the most that the local epochs of two learners differ by; the average is over all pairs.
        fulfilment: samples trained over samples wanted.
        is_satisfied: whether all was trained by the deadline.
        occupancy: of the learners' time in the round, the part until their updates came.
        late: learners that took work and whose update was not in.
    """

    round: int
    opened_at: float
    closed_at: float
    deadline_seconds: float
    seconds: float
    truancy: float
    num_learners: int
    num_updates: int
    num_shards: int
    num_samples: int
    staleness: float
    average_staleness: float
    fulfilment: float
    is_satisfied: bool
    occupancy: float
    late: tuple[str, ...]
    loss: float | None
    accuracy: float | None


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """A time for which a learner took part, in seconds of the run; to where it was first missed, if it was lost."""

    start: float
    end: float


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be said by `say_event`; `job` is empty for what happened to the pool."""

    event: Event
    job: str = ""


class Summary(Metrics, frozen=True, kw_only=True):
    """What a run came to; its metrics are means over the closed rounds.

    Attributes:
        started: as first told; None if nothing was recorded.
        ended: None for a run that is under way or was interrupted.
        learners: in the order in which they were first heard of.
        happenings: joins, leaves, refusals, cheats, waits and resumes, in order; each can be said by `say_event`.
        seconds: from the start to the last event.
        loss: the last known, as is `accuracy`.
        truancy_max: over the closed rounds, as is `truancy_mean`; None without any.
        num_learner_rounds: how often a learner took work, in closed rounds.
        num_late: how many of those closed without its update.
        num_audits: updates that were trained again.
        deadline_use: mean over the learners that have one.
        footprint: of all learners that told theirs.
    """

    started: RunStarted | None
    ended: RunEnded | None
    rounds: tuple[RoundSummary, ...]
    learners: tuple[LearnerSummary, ...]
    happenings: tuple[Event, ...]
    seconds: float
    loss: float | None
    accuracy: float | None
    truancy_max: float | None
    truancy_mean: float | None
    num_samples: int
    num_learner_rounds: int
    num_late: int
    num_audits: int
    deadline_use: float | None
    footprint: Footprint
