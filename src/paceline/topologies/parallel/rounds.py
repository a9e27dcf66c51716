"""The state of one open round: who is awaited, who took what, whose update is in. No clock, no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from paceline.allocation import SITS_OUT, Allocation
from paceline.allocation.cycle import mean_difference
from paceline.learning.averaging import Judge, RunningAverage


@dataclass
class Share:
    """What one learner took.

    Attributes:
        numbers: the shards served; none if it trains on its own data.
        num_samples: in its shards.
        iterations: passes over them that it is to do.
    """

    numbers: list[int]
    num_shards: int
    num_samples: int
    iterations: int


@dataclass
class OpenRound:
    """One round while it is open.

    Attributes:
        number: counts from 1.
        opened_at: loop time, in seconds.
        judge: of the updates that come in.
        awaited: learners whose update, or word that none will come, is still missing.
        overtime_seconds: for which it stays open after its deadline while updates are awaited.
        allocation: by learner, if the orchestrator decides.
        delivered: learners whose update is in, and how many iterations they have done.
    """

    number: int
    opened_at: float
    deadline_seconds: float
    judge: Judge
    awaited: set[str]
    overtime_seconds: float = 0.0
    allocation: Mapping[str, Allocation] | None = None
    shares: dict[str, Share] = field(default_factory=dict)
    delivered: dict[str, float] = field(default_factory=dict)
    average: RunningAverage = field(default_factory=RunningAverage)

    @property
    def due_at(self) -> float:
        """Loop time of the deadline."""
        return self.opened_at + self.deadline_seconds

    @property
    def staleness(self) -> float:
        """The most that two learners' iterations differ by; of those whose update is in."""
        return max(self.delivered.values(), default=0.0) - min(self.delivered.values(), default=0.0)

    @property
    def average_staleness(self) -> float:
        """The mean difference in iterations over all pairs of them."""
        return mean_difference([*self.delivered.values()])

    @property
    def is_complete(self) -> bool:
        """Whether there is nobody left to wait for."""
        return not self.awaited and bool(self.delivered)

    @property
    def late(self) -> list[str]:
        """Learners that took work and have not delivered."""
        return sorted(self.shares.keys() - self.delivered.keys())

    @property
    def num_shards(self) -> int:
        """Shards taken by all."""
        return sum(share.num_shards for share in self.shares.values())

    def is_open_to(self, learner: str, after: int) -> bool:
        """Whether a learner that has seen the rounds up to `after` can still take part."""
        return self.number > after and learner not in self.delivered

    def expect(self, learner: str) -> None:
        """Wait for this learner too, unless its update is in."""
        if learner not in self.delivered:
            self.awaited.add(learner)

    def allocated_to(self, learner: str) -> Allocation | None:
        """What is allocated to a learner; None if the orchestrator does not decide."""
        return None if self.allocation is None else self.allocation.get(learner, SITS_OUT)

    def give_up(self, learner: str) -> None:
        """Do not wait for a learner any longer."""
        self.awaited.discard(learner)

    def accept(self, learner: str, state: Mapping[str, torch.Tensor], num_samples: int) -> str | None:
        """Average an update in; returns the reason if it cannot be used."""
        reason = self._why_refused(learner, num_samples) or self.judge.why_unusable(state)
        if reason is None:
            self.average.add(state, num_samples)
            self.delivered[learner] = num_samples / self.shares[learner].num_samples
        if learner in self.shares:
            self.give_up(learner)
        return reason

    def _why_refused(self, learner: str, num_samples: int) -> str | None:
        share = self.shares.get(learner)
        if share is None:
            return f"took no shards in round {self.number}"
        if learner in self.delivered:
            return f"its update of round {self.number} is in already"
        most = share.num_samples * share.iterations
        if not 0 < num_samples <= most:
            return f"{num_samples} samples are impossible; its shards allow 1 to {most}"
        return None
