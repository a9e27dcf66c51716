"""What happens in runs of several topologies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from paceline.events import Event, Phase
from paceline.learning.scores import Scores

Metrics: TypeAlias = Mapping[str, float | None]
"""Figures by name; None for one that is NaN or infinite, which JSON does not have."""

STOPPED: Final = "stopped by a callback"
"""Reason of a run that whoever watches it has ended early."""


class DeviceEvent(Event, frozen=True, kw_only=True):
    """Base of what happens on one device, or to it; in all topologies it is called `learner`."""

    learner: str


class RoundEvent(DeviceEvent, frozen=True, kw_only=True):
    """Base of what happens on a device in a round."""

    round: int


class EpochEvent(DeviceEvent, frozen=True, kw_only=True):
    """Base of what happens on a device in an epoch."""

    epoch: int


class StartEvent(Event, frozen=True, kw_only=True):
    """Base of what begins the record of a job.

    Attributes:
        job: the resolved job, as in the run folder.
        clock: whether times are real or virtual.
        metric_names: metrics that models are evaluated by.
    """

    job: dict[str, Any]
    clock: Literal["live", "virtual"]
    metric_names: tuple[str, ...] = ()
    paceline: str


class ResultEvent(Event, frozen=True, kw_only=True):
    """Base of what ends with a model: its loss on the test data, None if not evaluated, and its metrics by name."""

    loss: float | None = None
    metrics: Metrics = msgspec.field(default_factory=dict)

    @property
    def scores(self) -> Scores | None:
        """What the model achieves; None if it was not evaluated."""
        known = {name: figure for name, figure in self.metrics.items() if figure is not None}
        return None if self.loss is None else Scores(self.loss, known)


class LearnerJoined(DeviceEvent, frozen=True, tag="learner_joined"):
    """A learner joined; `is_back` if one of that name was there before."""

    is_back: bool = False


class LearnerLeft(DeviceEvent, frozen=True, tag="learner_left"):
    """A learner said goodbye, or has not been heard of."""

    reason: str


class HostLost(DeviceEvent, frozen=True, tag="host_lost"):
    """A device cannot reach its host, and goes on trying for so many seconds (recorded on the device only)."""

    reason: str
    patience_seconds: float


class HostBack(DeviceEvent, frozen=True, tag="host_back"):
    """A device reaches its host again (recorded on the device only)."""


class WaitingForLearners(Event, frozen=True, tag="waiting_for_learners"):
    """A round cannot open yet."""

    round: int
    num_ready: int
    min_learners: int


class StateLost(Event, frozen=True, tag="state_lost"):
    """Something that an interrupted run had kept is damaged or missing as it goes on."""

    what: str


class PhaseStarted(RoundEvent, frozen=True, tag="phase_started"):
    """A learner turned to something else (recorded on the device only); round 0 is before the first.

    A peer's rounds are its epochs.
    """

    phase: Phase
    job: str = ""


class MemberListening(DeviceEvent, frozen=True, tag="peer_listening"):
    """A member can be called by others, at this address; with TLS, its certificate has this fingerprint."""

    address: str
    fingerprint: str | None = None
