"""What happens in runs of several topologies."""

from __future__ import annotations

from typing import Final

from paceline.events import Event, Phase

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


class ResultEvent(Event, frozen=True, kw_only=True):
    """Base of what ends with a model: its loss and accuracy on the test data, None if not evaluated."""

    loss: float | None = None
    accuracy: float | None = None


class LearnerJoined(DeviceEvent, frozen=True, tag="learner_joined"):
    """A learner joined; `is_back` if one of that name was there before."""

    is_back: bool = False


class LearnerLeft(DeviceEvent, frozen=True, tag="learner_left"):
    """A learner said goodbye, or has not been heard of."""

    reason: str


class WaitingForLearners(Event, frozen=True, tag="waiting_for_learners"):
    """A round cannot open yet."""

    round: int
    num_ready: int
    min_learners: int


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
