"""Adaptive DAB: a learner re-estimates its rates, and its margin, from its own past rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from paceline.allocation.base import MAX_DEADLINE_SECONDS, SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms
from paceline.allocation.least_time import least_time
from paceline.allocation.pace_estimate import Pace, estimate
from paceline.allocation.rounding import units_to_fill, units_within
from paceline.checks import Count
from paceline.devices.profiles import Rate
from paceline.errors import ConfigError

_LEAST_PRIOR_SPREAD = 0.1  # a benchmark is short, and sees less variation than rounds do
_MOST_PRIOR_SPREAD = 0.5
_MOST_KEPT_FREE = 0.5  # of the deadline, if uploads usually take less: one failure must not stop all training
_LEAST_TRAINING = 0.25  # of the training of its shards, that a round with a slow download must have time for


@dataclass(frozen=True, kw_only=True)
class AdaptiveDabAllocation(AllocationPolicy):
    """DAB with rates that follow the device from round to round.

    Training halts in time for the upload. Too many shards therefore cost no more than their download, while too few
    leave the device idle: shards are computed from the fast side of the rates observed, and rounded up. What cannot be
    cut short is taken at its slow side: the upload, for which time is kept free, and the download, which must leave
    time to train. The benchmark counts as the three oldest rounds, and expires like them. A learner without time for a
    quarter of the training of one shard gets 0 at first; once it has a history it always gets at least one, so that it
    goes on measuring.

    Attributes:
        window: number of rounds to look back.
        optimism: share of the rounds observed that were no faster than the rates assumed for shards; 0.5 to 1.
        caution: safety margin of uploads and downloads, in spreads of the rates observed.
        margin: minimum of the time kept free for chance, as a ratio of the deadline.
    """

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "learner"

    window: Count = 25
    optimism: Annotated[float, Meta(ge=0.5, le=1)] = 0.75
    caution: Annotated[float, Meta(ge=0, le=10)] = 2.1
    margin: Annotated[float, Meta(ge=0, le=0.5)] = 0.01

    def allocate(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> list[Allocation]:
        """Decide for each candidate by itself; raises `ConfigError` for one without measurements."""
        counts = [self._shards(terms, candidate) for candidate in candidates]
        return [Allocation(count, terms.local_epochs) if count else SITS_OUT for count in counts]

    def upload_seconds(self, terms: RoundTerms, candidate: Candidate) -> float:
        """Return the slow side of the uploads observed, at least their median plus the margin."""
        up = self._pace(candidate, "up")
        usual_seconds = terms.up_bytes * up.middle
        kept_seconds = max(terms.up_bytes * up.slow, usual_seconds + self.margin * terms.deadline_seconds)
        most_seconds = max(usual_seconds, _MOST_KEPT_FREE * terms.deadline_seconds)
        return _latency_seconds(candidate) + min(kept_seconds, most_seconds)

    def least_deadline_seconds(self, terms: RoundTerms, candidate: Candidate) -> float:
        """Return the shortest deadline that is enough for a whole shard at the usual rates, and for its upload."""
        train, down = self._pace(candidate, "train"), self._pace(candidate, "down")
        shard_seconds = terms.shard_bytes * down.middle + terms.local_epochs * terms.shard_samples * train.middle
        used_seconds = _latency_seconds(candidate) + terms.model_bytes * down.middle + shard_seconds

        def works(seconds: float) -> bool:
            longer = msgspec.structs.replace(terms, deadline_seconds=seconds)
            return used_seconds + self.upload_seconds(longer, candidate) <= seconds

        return least_time(works, terms.deadline_seconds, MAX_DEADLINE_SECONDS)

    def _shards(self, terms: RoundTerms, candidate: Candidate) -> int:
        train, down = self._pace(candidate, "train"), self._pace(candidate, "down")
        latency_seconds, most = _latency_seconds(candidate), candidate.most_shards(terms)
        halt_seconds = terms.deadline_seconds - self.upload_seconds(terms, candidate)
        passes = terms.local_epochs * terms.shard_samples
        wanted = units_to_fill(
            halt_seconds,
            fixed_seconds=latency_seconds + terms.model_bytes * down.fast,
            unit_seconds=terms.shard_bytes * down.fast + passes * train.fast,
            most=most,
        )
        bearable = units_within(
            halt_seconds,
            fixed_seconds=latency_seconds + terms.model_bytes * down.slow,
            unit_seconds=terms.shard_bytes * down.slow + _LEAST_TRAINING * passes * train.middle,
            most=most,
        )
        return max(min(wanted, bearable), min(1, most) if candidate.history else 0)

    def _pace(self, candidate: Candidate, phase: Literal["train", "down", "up"]) -> Pace:
        past = [] if candidate.profile is None else _prior(getattr(candidate.profile, phase))
        past += _seen(candidate, phase, self.window)
        if not past:
            raise ConfigError(f"adaptive-dab: learner {candidate.name!r} has no measurements ({phase})")
        return estimate(past[-self.window :], optimism=self.optimism, caution=self.caution)


def _prior(rate: Rate) -> list[float]:
    """Turn the benchmark into three rounds: its rate, and a spread to either side."""
    spread = min(max(rate.spread, _LEAST_PRIOR_SPREAD), _MOST_PRIOR_SPREAD)
    return [1 / rate.per_second, (1 + spread) / rate.per_second, (1 - spread) / rate.per_second]


def _seen(candidate: Candidate, phase: Literal["train", "down", "up"], window: int) -> list[float]:
    """Return the seconds per sample or byte of the last rounds, as far as they were measured."""
    recent = candidate.history[-window:]
    if phase == "train":
        return [past.train_seconds / past.num_samples for past in recent if past.num_samples and past.train_seconds]
    if phase == "down":
        calls = [(past.down_seconds, past.down_bytes) for past in recent]
    else:
        calls = [(past.up_seconds, past.up_bytes) for past in recent]
    latency_seconds = _latency_seconds(candidate)
    # Latency was measured once; where it seems to be most of a call, it no longer holds.
    return [max(seconds - latency_seconds, seconds / 2) / size for seconds, size in calls if seconds and size]


def _latency_seconds(candidate: Candidate) -> float:
    return 0.0 if candidate.profile is None else candidate.profile.latency_seconds
