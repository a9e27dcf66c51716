"""Adaptive DAB: a learner takes what its own past rounds say it can finish, and keeps free what they say it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from paceline.allocation.base import AllocationPolicy, Candidate, Terms
from paceline.allocation.pace import Pace, estimate
from paceline.allocation.rounding import units_to_fill, units_within
from paceline.devices.profiles import Rate
from paceline.errors import ConfigError

_LEAST_PRIOR_SPREAD = 0.1  # a benchmark is short, and sees less variation than rounds do
_LEAST_TRAINING = 0.25  # of what the shards ask for, that a round with a slow download must still have time for


@dataclass(frozen=True, kw_only=True)
class AdaptiveDabAllocation(AllocationPolicy):
    """DAB with rates that follow the device from round to round.

    Training halts in time for the upload. To ask for more than can be trained therefore costs no more than the
    download of it, while to ask for less leaves the device idle: shards are asked for at the fast side of the rates
    seen, rounded up. What cannot be cut short is taken at its slow side: the upload, for which time is kept free, and
    the download, which must leave time to train. The benchmark counts as the oldest three rounds, and is forgotten as
    they are. Without any round yet, a learner that has no time for a quarter of the training of one shard gets 0; with
    history it always gets one, so that it goes on measuring.

    Attributes:
        window: how many rounds it looks back.
        optimism: share of the rounds seen that were no faster than what shards are asked for; 0.5 to 1.
        caution: time kept free for chance, in multiples of how far the slowest tenth of the rounds is from the middle.
        margin: the least that is kept free for chance, as a ratio of the deadline.
    """

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "learner"

    window: int = 25
    optimism: float = 0.8
    caution: float = 2.2
    margin: float = 0.01

    def __post_init__(self) -> None:
        for name, value, is_allowed, allowed in (
            ("window", self.window, self.window >= 1, "at least 1"),
            ("optimism", self.optimism, 0.5 <= self.optimism <= 1, "from 0.5 to 1"),
            ("caution", self.caution, 0 <= self.caution <= 100, "from 0 to 100"),
            ("margin", self.margin, 0 <= self.margin <= 0.5, "from 0 to 0.5"),
        ):
            if not is_allowed:
                raise ConfigError(f"adaptive-dab: {name} is {value}; allowed: {allowed}")

    def allocate(self, terms: Terms, fleet: Sequence[Candidate]) -> list[int]:
        """Each candidate for itself; raises `ConfigError` for one with neither profile nor history."""
        return [self._shards(terms, candidate) for candidate in fleet]

    def upload_seconds(self, terms: Terms, candidate: Candidate) -> float:
        """The slow side of the uploads seen, and no less than the middle and the margin."""
        latency_seconds, up = _latency_seconds(candidate), self._up(candidate)
        return latency_seconds + max(
            terms.model_bytes * up.slow, terms.model_bytes * up.middle + self.margin * terms.deadline_seconds
        )

    def _shards(self, terms: Terms, candidate: Candidate) -> int:
        train, down = self._train(candidate), self._down(candidate)
        latency_seconds, most = _latency_seconds(candidate), candidate.most_shards(terms)
        halt_seconds = terms.deadline_seconds - self.upload_seconds(terms, candidate)
        passes = terms.iterations * terms.shard_samples
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

    def _train(self, candidate: Candidate) -> Pace:
        past = [(past.train_seconds, past.num_samples) for past in candidate.history]
        return self._pace(candidate, candidate.profile and candidate.profile.train, past)

    def _down(self, candidate: Candidate) -> Pace:
        past = [(past.down_seconds, past.down_bytes) for past in candidate.history]
        return self._pace(candidate, candidate.profile and candidate.profile.down, past, _latency_seconds(candidate))

    def _up(self, candidate: Candidate) -> Pace:
        past = [(past.up_seconds, past.up_bytes) for past in candidate.history]
        return self._pace(candidate, candidate.profile and candidate.profile.up, past, _latency_seconds(candidate))

    def _pace(
        self, candidate: Candidate, rate: Rate | None, rounds: list[tuple[float, int]], latency_seconds: float = 0.0
    ) -> Pace:
        past = [] if rate is None else _prior(rate)
        past += [max(s - latency_seconds, s / 2) / n for s, n in rounds[-self.window :] if n > 0 and s > 0]
        return estimate(past[-self.window :], optimism=self.optimism, caution=self.caution)


def _prior(rate: Rate) -> list[float]:
    spread = min(max(rate.spread, _LEAST_PRIOR_SPREAD), 0.5)
    return [1 / rate.per_second, (1 + spread) / rate.per_second, (1 - spread) / rate.per_second]


def _latency_seconds(candidate: Candidate) -> float:
    return 0.0 if candidate.profile is None else candidate.profile.latency_seconds
