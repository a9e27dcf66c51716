"""What happens in runs of several topologies."""

from __future__ import annotations

from paceline.events import Event, Phase


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


class PhaseStarted(Event, frozen=True, tag="phase_started"):
    """A learner turned to something else (told on the device only); round 0 is before the first.

    A peer's rounds are its epochs.
    """

    learner: str
    round: int
    phase: Phase
    job: str = ""


class PeerListening(Event, frozen=True, tag="peer_listening"):
    """A peer can be called, at this address; with TLS, its certificate has this fingerprint."""

    learner: str
    address: str
    fingerprint: str | None = None
