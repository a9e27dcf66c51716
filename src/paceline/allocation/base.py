"""Input and output of every allocation policy: plain data in, plain data out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from paceline.allocation.least_time import least_time
from paceline.checks import Count, CountOrZero, Positive, check_fields
from paceline.devices.profiles import Outlook, Profile

_SPREADS_KEPT_FREE = 3  # of an upload's rate: hardly ever exceeded, if it varies as it did in the benchmark
_MOST_MARGIN = 1.0  # as a ratio of the expected upload: a wild benchmark must not eat up the round
_UNKNOWN_UPLOAD = 0.1  # of the deadline, as long as nothing is known about the link


MAX_DEADLINE_SECONDS = 1e6
"""Longest deadline that is suggested."""

MAX_OVERTIME = 100.0
"""Limit of overtime, as a ratio of the deadline."""


class RoundTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Terms of a round.

    Attributes:
        deadline_seconds: time from the start of a learner's work until its update must have arrived.
        local_epochs: passes over the allocated shards.
        model_bytes: size of the parameters as sent to a learner.
        shard_bytes: size of a shard as sent; 0 if data stays on the devices.
        shard_samples: samples in a shard.
        num_shards: shards to hand out; 0 if each candidate has its own.
        overtime: how far past the deadline the round waits for updates, as a ratio of it; training halts only then.
        compressed_bytes: size of an update as sent; None if it is not compressed, and so of the size of the parameters.
    """

    deadline_seconds: Positive
    local_epochs: Count
    model_bytes: CountOrZero
    shard_bytes: CountOrZero
    shard_samples: Count
    num_shards: CountOrZero
    overtime: Annotated[float, Meta(ge=0, le=MAX_OVERTIME)] = 0.0
    compressed_bytes: CountOrZero | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def up_bytes(self) -> int:
        """Size of an update as sent."""
        return self.model_bytes if self.compressed_bytes is None else self.compressed_bytes


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one past round on a device; a count of 0 means that nothing was measured.

    Attributes:
        down_bytes: size of parameters and shards.
        num_samples: samples trained, counted once per pass.
        up_seconds: duration of the upload, or of the attempt if it failed.
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
        profile: result of its benchmark; None if it was not measured.
        history: past rounds, oldest first.
        max_shards: limit set by its owner; None for none.
        price: price of a shard, where work is paid for.
        outlook: states that it may be in; empty if the policy does not need them.
        state: state that it is in, if known.
        num_shards: shards of its own data, where that stays on the devices; None where shards are handed out.
    """

    name: str
    profile: Profile | None = None
    history: tuple[Timings, ...] = ()
    max_shards: int | None = None
    price: float = 0.0
    outlook: tuple[Outlook, ...] = ()
    state: str | None = None
    num_shards: int | None = None

    def most_shards(self, terms: RoundTerms) -> int:
        """Return the limit of its shards: those there are for it, and its owner's."""
        there = terms.num_shards if self.num_shards is None else self.num_shards
        return there if self.max_shards is None else max(0, min(self.max_shards, there))


def shards_there(terms: RoundTerms, candidates: Sequence[Candidate]) -> int:
    """Return the number of shards that there are for a round: those to hand out, or all that candidates have."""
    own = [candidate.num_shards for candidate in candidates if candidate.num_shards is not None]
    return sum(own) if own else terms.num_shards


class Allocation(NamedTuple):
    """Shards and local epochs of a learner in a round."""

    num_shards: int
    local_epochs: int


SITS_OUT = Allocation(0, 0)
"""Allocation of a learner that takes no part in this round."""


class AllocationPolicy(ABC):
    """Decides how many shards each learner trains in a round, and in how many local epochs.

    A policy is a frozen dataclass; its parameters are its fields, which are checked by their annotations, and the same
    arguments give the same result. It opens no socket, reads no clock and keeps no state; past rounds are in the
    candidates' `history`.

    Attributes:
        decided_by: role that calls it. A learner calls it with itself as the only candidate, so that nothing
            about the device leaves it; the orchestrator with all of them at once; where there is none, every peer does.
        needs_profiles: whether learners send their profile to the orchestrator, or to the other peers.
        needs_outlook: whether they send a profile and a probability for each state that they may be in.
    """

    decided_by: ClassVar[Literal["learner", "orchestrator", "peers"]]
    needs_profiles: ClassVar[bool] = False
    needs_outlook: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def state_reports(self) -> Literal["never", "once", "each round"]:
        """When learners report the state they are in: never, once as they join, or before each round."""
        return "never"

    @abstractmethod
    def allocate(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> list[Allocation]:
        """Decide what each candidate trains, in order: `SITS_OUT`, or 1 to its `most_shards`, once or more."""

    def least_deadline_seconds(self, terms: RoundTerms, candidate: Candidate) -> float:
        """Return the shortest deadline with which a candidate would train a shard, if that of the terms is too short.

        Infinite if there is none, or it cannot be known.
        """

        def works(seconds: float) -> bool:
            longer = msgspec.structs.replace(terms, deadline_seconds=seconds)
            return self.allocate(longer, (candidate,))[0].num_shards > 0

        return least_time(works, terms.deadline_seconds, MAX_DEADLINE_SECONDS)

    def upload_seconds(self, terms: RoundTerms, candidate: Candidate) -> float:
        """Return the seconds to keep free for the upload at the end of the round, margin included.

        Training halts when no more than this is left until the deadline. With a benchmark it is the expected time plus
        three spreads of the rate, at most that time again; otherwise that of the slowest past round.
        """
        if candidate.profile is not None:
            up, latency_seconds = candidate.profile.up, candidate.profile.latency_seconds
            margin = min(_SPREADS_KEPT_FREE * up.spread, _MOST_MARGIN)
            return latency_seconds + terms.up_bytes / up.per_second * (1 + margin)
        past = [past.up_seconds / past.up_bytes for past in candidate.history if past.up_bytes > 0]
        return max(past) * terms.up_bytes if past else _UNKNOWN_UPLOAD * terms.deadline_seconds
