"""The state of one open round: who is awaited, who took what, whose update is in. No clock, no network."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from paceline.allocation import SITS_OUT, Allocation
from paceline.allocation.staleness import mean_difference
from paceline.learning.aggregation import Aggregation, LimitedCollector, Update
from paceline.learning.compression import Compression
from paceline.learning.privacy import MaskError, PrivacySpec, change_of, clipped, moved, with_noise
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Vectors
from paceline.topologies.parallel.masking import Masking
from paceline.topologies.parallel.reserve import ShardReserve

_HASTE = 3.0  # times the speed that a learner measured: nobody is that much faster in a round


@dataclass
class Share:
    """What one learner took.

    Attributes:
        portions: numbers of the shards served, as they were taken; none if it trains on its own data.
        num_samples: samples in its shards.
        local_epochs: passes over them that it is to do.
        taken_seconds: time from when the round opened until they were taken.
        samples_per_second: speed that the learner declared, counted once per pass; infinite if it declared none.
        num_plausible: samples that it can have trained in the time that it had; known once its update is in.
    """

    portions: list[list[int]]
    num_shards: int
    num_samples: int
    local_epochs: int
    taken_seconds: float = 0.0
    samples_per_second: float = math.inf
    num_plausible: float = math.inf

    def add(self, more: Share) -> None:
        """Take more shards."""
        self.portions += more.portions
        self.num_shards += more.num_shards
        self.num_samples += more.num_samples

    def arrive(self, seconds: float) -> None:
        """Note when the update came, in seconds after the round opened."""
        if self.samples_per_second < math.inf:
            most = _HASTE * self.samples_per_second * (seconds - self.taken_seconds)
            self.num_plausible = max(most, 1.0)

    def weight(self, aggregation: Aggregation, num_samples: int) -> float:
        """Return what an update of it counts by that claims so many samples."""
        return aggregation.weight_of(
            int(min(self.num_samples, self.num_plausible)), int(min(num_samples, self.num_plausible))
        )

    def why_impossible(self, num_samples: int) -> str | None:
        """Return why so many samples cannot have been trained; None if they can."""
        most = self.num_samples * self.local_epochs
        return (
            None if 0 < num_samples <= most else f"{num_samples} samples are impossible; its shards allow 1 to {most}"
        )


@dataclass(frozen=True)
class TrainedShare:
    """What a learner made of its share.

    Attributes:
        start: parameters that it started from.
        num_samples: samples trained, counted once per pass.
        audit: whether it is to be audited before it counts.
    """

    learner: str
    round: int
    share: Share
    start: Vectors
    parameters: Vectors
    num_samples: int
    audit: bool = True


@dataclass
class OpenRound:
    """One round while it is open.

    Attributes:
        number: counts from 1.
        opened_at: loop time when it opened, in seconds.
        validator: checks the updates that come in.
        aggregation: decides what an update counts by.
        collector: takes the updates that count, and limits what each does.
        compression: how updates are sent.
        privacy: how each is clipped, and their sum hidden by noise.
        rng: draws that noise.
        unmasking_seconds: time of it that is kept for taking off masks.
        masking: sums the updates under masks; None if they come as they are.
        awaited: learners whose update, or word that none will come, is still missing.
        batch_size: samples per minibatch.
        overtime_seconds: how long it stays open after its deadline while updates are awaited.
        allocation: shards and local epochs by learner, if the orchestrator decides.
        reserve: shards held back, for whoever is done first; None if there are none.
        max_learners: number of learners that may take part; None for no limit.
        delivered: learners whose update is in, and how many samples they have trained.
        arrivals: when those updates came, in seconds after it opened.
        unaudited: updates among them that are to be audited before they count, with their numbers of samples.
        failed_audit: learners whose update failed its audit.
        down_bytes: size of all parameters and shards that were sent while it was open; likewise `up_bytes`, of updates.
        diverged: learners whose training diverged, and what shows it.
        lost: learners whose updates were in a sum that could not be unmasked.
    """

    number: int
    opened_at: float
    deadline_seconds: float
    validator: UpdateValidator
    aggregation: Aggregation
    collector: LimitedCollector
    awaited: set[str]
    batch_size: int = 1
    overtime_seconds: float = 0.0
    allocation: Mapping[str, Allocation] | None = None
    reserve: ShardReserve | None = None
    compression: Compression = field(default_factory=Compression)
    privacy: PrivacySpec = field(default_factory=PrivacySpec)
    rng: random.Random = field(default_factory=random.SystemRandom)
    unmasking_seconds: float = 0.0
    masking: Masking | None = None
    max_learners: int | None = None
    shares: dict[str, Share] = field(default_factory=dict)
    delivered: dict[str, int] = field(default_factory=dict)
    arrivals: dict[str, float] = field(default_factory=dict)
    unaudited: dict[str, tuple[dict[str, torch.Tensor], int]] = field(default_factory=dict)
    failed_audit: set[str] = field(default_factory=set)
    diverged: dict[str, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    down_bytes: int = 0
    up_bytes: int = 0

    def __post_init__(self) -> None:
        self._members = set(self.awaited)

    @property
    def due_at(self) -> float:
        """Loop time of the deadline for updates: that of the round, or earlier if masks are to be taken off."""
        return self.opened_at + self.deadline_seconds - self.unmasking_seconds

    @property
    def staleness(self) -> float:
        """Largest difference in local epochs between two learners whose update is in."""
        local_epochs = self._local_epochs_done
        return max(local_epochs, default=0.0) - min(local_epochs, default=0.0)

    @property
    def average_staleness(self) -> float:
        """Mean difference in local epochs over all pairs of them."""
        return mean_difference(self._local_epochs_done)

    @property
    def _local_epochs_done(self) -> list[float]:
        return [num_samples / self.shares[name].num_samples for name, num_samples in self.delivered.items()]

    @property
    def is_complete(self) -> bool:
        """Whether there is nobody left to wait for."""
        return not self.awaited and bool(self.delivered or self.diverged)

    @property
    def has_diverged(self) -> bool:
        """Whether the training of everybody that took work diverged."""
        return bool(self.shares) and self.diverged.keys() >= self.shares.keys()

    @property
    def late(self) -> list[str]:
        """Learners that took work and have not delivered."""
        came = self.delivered.keys() | self.failed_audit | self.diverged.keys() | self.lost
        return sorted(self.shares.keys() - came)

    @property
    def num_samples(self) -> int:
        """Samples trained by all whose update is in, counted once per pass."""
        return sum(self.delivered.values())

    @property
    def num_shards(self) -> int:
        """Shards taken by all."""
        return sum(share.num_shards for share in self.shares.values())

    def fulfilment(self, shard_samples: int) -> float:
        """Return samples trained over samples wanted (taken, allocated or held back), passes counted."""
        wanted = sum(share.num_samples * share.local_epochs for share in self.shares.values())
        if self.allocation is not None:
            untaken = [allocated for name, allocated in self.allocation.items() if name not in self.shares]
            wanted += sum(allocated.num_shards * shard_samples * allocated.local_epochs for allocated in untaken)
        if self.reserve is not None:
            local_epochs = max((share.local_epochs for share in self.shares.values()), default=1)
            wanted += self.reserve.num_left * shard_samples * local_epochs
        return self.num_samples / wanted if wanted else 0.0

    def occupancy(self, seconds: float) -> float:
        """Return the part of the learners' time until their updates came, in a round that took so many seconds."""
        names = sorted(self.shares.keys() | (() if self.allocation is None else self.allocation.keys()))
        busy = [min(self.arrivals.get(name, seconds if name in self.shares else 0.0), seconds) for name in names]
        return sum(busy) / (seconds * len(busy)) if busy and seconds > 0 else 0.0

    def is_open_to(self, learner: str, after: int) -> bool:
        """Return whether a learner that has seen the rounds up to `after` can still take part."""
        return self.number > after and learner not in self.delivered and self.has_place_for(learner)

    def has_place_for(self, learner: str) -> bool:
        """Return whether a learner is one of those that take part, or there are fewer than may."""
        if self.masking is not None and self.masking.members is not None:
            return learner in self.masking.members
        is_full = self.max_learners is not None and len(self._members) >= self.max_learners
        return learner in self._members or not is_full

    def expect(self, learner: str) -> None:
        """Wait for this learner too, unless its update is in."""
        self._members.add(learner)
        if learner not in self.delivered:
            self.awaited.add(learner)

    def allocated_to(self, learner: str) -> Allocation | None:
        """Return what is allocated to a learner; None if the orchestrator does not decide."""
        return None if self.allocation is None else self.allocation.get(learner, SITS_OUT)

    def give_up(self, learner: str) -> None:
        """Do not wait for a learner any longer."""
        self.awaited.discard(learner)

    def accept(
        self, learner: str, sent: dict[str, torch.Tensor], num_samples: int, *, seconds: float, audit: bool
    ) -> str | None:
        """Take an update; returns the reason if it cannot be used.

        Args:
            sent: its parameters as the compression has them sent.
            seconds: time since the round opened.
            audit: whether it is to be audited first.
        """
        parameters: Vectors = {}
        reason = self._why_refused(learner, num_samples)
        if reason is None and self.masking is not None:
            reason = self.masking.add(learner, sent)
            if reason is None:
                self._deliver(learner, num_samples, seconds)
            return reason
        if reason is None:
            parameters, reason = restored(self.compression, sent, self.validator)
        if reason is None and (shown_by := self.validator.why_diverged(parameters)) is not None:
            return self.diverge(learner, f"of its parameters, {shown_by}")
        if reason is None:
            self.shares[learner].arrive(seconds)
            if audit:
                self.unaudited[learner] = (parameters, num_samples)
            else:
                self.count(learner, parameters, self.shares[learner], num_samples)
            self._deliver(learner, num_samples, seconds)
        elif learner in self.shares:
            self.give_up(learner)
        return reason

    def _deliver(self, learner: str, num_samples: int, seconds: float) -> None:
        self.delivered[learner] = num_samples
        self.arrivals[learner] = seconds
        self.give_up(learner)

    def count(self, learner: str, parameters: Vectors, share: Share, num_samples: int) -> None:
        """Have an update count by the work in it."""
        weight = share.weight(self.aggregation, num_samples)
        if self.privacy.clip_norm is not None:
            parameters = self._clipped(parameters)
        self.collector.add(learner, Update(parameters, weight, num_samples / self.batch_size))

    def _clipped(self, parameters: Vectors) -> Vectors:
        """Return an update whose change is within the limit; the first has the noise of the sum of all."""
        start = self.validator.like
        change = clipped(change_of(parameters, start), self.privacy.clip_norm)
        if not self.collector.num_updates:
            change = with_noise(change, self.privacy.noise_norm, self.rng)
        return moved(start, change)

    @property
    def weight(self) -> float:
        """Weight of all updates that are in."""
        return sum(self.aggregation.weight_of(self.shares[name].num_samples, n) for name, n in self.delivered.items())

    def unmask(self) -> str | None:
        """Have the sum of masked updates count as one; returns the reason if it cannot be used."""
        assert self.masking is not None
        try:
            mean = self.masking.finish(self.validator.like, self.weight)
        except MaskError as error:
            return str(error)
        reason = self.validator.why_diverged(mean)
        if reason is None:
            self.collector.add("", Update(mean, self.weight, self.num_samples / self.batch_size))
        return reason

    def lose(self) -> list[str]:
        """Do without the updates that are in, which cannot be used; returns whose they are."""
        self.lost = set(self.delivered)
        self.delivered.clear()
        return sorted(self.lost)

    def diverge(self, learner: str, shown_by: str) -> str:
        """Do without a learner whose training diverged; returns why its update is not used."""
        self.diverged[learner] = shown_by
        self.give_up(learner)
        return f"its training diverged: {shown_by}"

    def fail_audit(self, learner: str) -> None:
        """Have an update count for nothing that failed its audit."""
        self.delivered.pop(learner, None)
        self.failed_audit.add(learner)

    def _why_refused(self, learner: str, num_samples: int) -> str | None:
        share = self.shares.get(learner)
        if share is None:
            return f"took no shards in round {self.number}"
        if learner in self.delivered:
            return f"its update of round {self.number} is in already"
        return share.why_impossible(num_samples)


def restored(compression: Compression, sent: Vectors, validator: UpdateValidator) -> tuple[Vectors, str | None]:
    """Return the parameters of an update, and how it differs from what could be sent; None if it does not."""
    try:
        parameters = compression.decode(sent, validator.like)
    except ValueError as error:
        return {}, str(error)
    return parameters, validator.why_unlike(parameters)
