"""What every allocation policy sees and decides: plain data in, plain data out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from paceline.checks import Count, CountOrZero, Positive, check_fields
from paceline.devices.profiles import Outlook, Profile

_SPREADS_KEPT_FREE = 3  # of an upload's rate: hardly ever exceeded, if it varies as it did in the benchmark
_MOST_MARGIN = 1.0  # as a ratio of the expected upload: a wild benchmark must not eat up the round
_UNKNOWN_UPLOAD = 0.1  # of the deadline, as long as nothing is known of the link


MAX_OVERTIME = 100.0
"""As a ratio of the deadline: a round ends some time, whoever is still awaited."""


class RoundTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a round asks of whoever takes part.

    Attributes:
        deadline_seconds: from the start of the learner's work until its update must be in.
        local_epochs: passes over the allocated shards.
        model_bytes: of the parameters as sent, the same in both directions.
        shard_bytes: of a shard as sent; 0 if data stays on the devices.
        shard_samples: in a shard.
        num_shards: that there are to hand out.
        overtime: how far past the deadline the round waits for updates, as a ratio of it; training halts only then.
    """

    deadline_seconds: Positive
    local_epochs: Count
    model_bytes: CountOrZero
    shard_bytes: CountOrZero
    shard_samples: Count
    num_shards: CountOrZero
    overtime: Annotated[float, Meta(ge=0, le=MAX_OVERTIME)] = 0.0

    def __post_init__(self) -> None:
        check_fields(self)


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """What one past round took on a device; a count of 0 says that nothing was measured.

    Attributes:
        down_bytes: parameters and shards.
        num_samples: samples trained, counted once per pass.
        up_seconds: of the upload; if it did not arrive, for as long as it was tried.
    """

    down_bytes: int
    down_seconds: float
    num_samples: int
    train_seconds: float
    up_bytes: int
    up_seconds: float


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A learner as a policy sees it.

    Attributes:
        profile: what its benchmark found; None if it was not measured.
        history: its past rounds, oldest first.
        max_shards: the most it is willing to take; None for no limit of its own.
        price: that it asks for a shard, where work is paid for.
        outlook: the states that it may be in; empty if the policy does not need them.
        state: the one that it is in, if that is known.
    """

    name: str
    profile: Profile | None = None
    history: tuple[Timings, ...] = ()
    max_shards: int | None = None
    price: float = 0.0
    outlook: tuple[Outlook, ...] = ()
    state: str | None = None

    def most_shards(self, terms: RoundTerms) -> int:
        """The most it can be given: what there is, and what it is willing to take."""
        return terms.num_shards if self.max_shards is None else max(0, min(self.max_shards, terms.num_shards))


class Allocation(NamedTuple):
    """What a learner is to train in a round: so many shards, in so many local epochs."""

    num_shards: int
    local_epochs: int


SITS_OUT = Allocation(0, 0)
"""Nothing, for this round."""


class AllocationPolicy(ABC):
    """Decides how many shards each learner trains in a round, and in how many local epochs.

    A policy is a frozen dataclass; its parameters are its fields, and the same arguments give the same answer. It opens
    no socket, reads no clock and remembers nothing; past rounds are in the candidates' `history`.

    Attributes:
        decided_by: who calls it. A policy of the learner's is called on the device with a fleet of one, so that
            nothing about the device leaves it; one of the orchestrator's sees all candidates at once. One of the
            peers' is called by each of them for all, where there is no orchestrator.
        needs_profiles: whether learners send theirs to the orchestrator, or to the other peers.
        needs_outlook: whether they send one for each state that they may be in, and how likely those are.
        states_told: whether they tell the state that they are in: never, once when they join, or before each round.
    """

    decided_by: ClassVar[Literal["learner", "orchestrator", "peers"]]
    needs_profiles: ClassVar[bool] = False
    needs_outlook: ClassVar[bool] = False

    @property
    def states_told(self) -> Literal["never", "once", "each round"]:
        return "never"

    @abstractmethod
    def allocate(self, terms: RoundTerms, fleet: Sequence[Candidate]) -> list[Allocation]:
        """What each candidate trains, in the fleet's order: `SITS_OUT`, or 1 to its `most_shards`, once or more."""

    def upload_seconds(self, terms: RoundTerms, candidate: Candidate) -> float:
        """The seconds to keep free for the upload at the end of the round, margin included.

        Training halts when no more than this is left until the deadline. From the benchmark if there was one: the
        expected time, and three spreads of the rate on top, but at most that time again. Otherwise from past rounds,
        their slowest.
        """
        if candidate.profile is not None:
            up, latency_seconds = candidate.profile.up, candidate.profile.latency_seconds
            margin = min(_SPREADS_KEPT_FREE * up.spread, _MOST_MARGIN)
            return latency_seconds + terms.model_bytes / up.per_second * (1 + margin)
        past = [past.up_seconds / past.up_bytes for past in candidate.history if past.up_bytes > 0]
        return max(past) * terms.model_bytes if past else _UNKNOWN_UPLOAD * terms.deadline_seconds
