"""The reserve: shards that are held back when a round opens, for whoever is done first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Taker:
    """A learner that may take from the reserve, and its pace as far as it is known.

    Attributes:
        num_shards: shards taken so far.
        num_last: shards among them that it took last.
        shard_seconds: time it needs for a shard; as expected, and later as observed.
        price: price it asks for a shard.
        began_at: when it began with the last ones, in seconds after the round opened.
    """

    num_shards: int
    num_last: int
    shard_seconds: float
    price: float
    began_at: float

    @property
    def done_at(self) -> float:
        """Expected end of its last shards, in seconds after the round opened."""
        return self.began_at + self.num_last * self.shard_seconds

    def finished(self, at: float) -> Taker:
        """Return the taker with the pace that it showed by ending its last shards now."""
        return replace(self, shard_seconds=max(at - self.began_at, 0.0) / self.num_last, num_last=0, began_at=at)

    def given(self, count: int) -> Taker:
        """Return the taker with so many more shards."""
        return replace(self, num_shards=self.num_shards + count, num_last=count)


class ShardReserve:
    """Shards of a round that nobody has taken yet.

    Args:
        num_shards: shards to begin with.
        takers: who may take from it, by name, with what they took as the round opened.
        budget: most that all shards of the round may cost; infinite if there is no limit.
        due_seconds: the deadline, after the round opened.
    """

    def __init__(self, num_shards: int, takers: Mapping[str, Taker], *, budget: float, due_seconds: float) -> None:
        self.num_left = num_shards
        self._takers = dict(takers)
        self._budget = budget
        self._due_seconds = due_seconds

    def draw(self, learner: str, at: float) -> int:
        """Hand shards to a learner that is done with its own, `at` seconds after the round opened; returns how many.

        Half of an equal share of what is left, so that all are done at about the same time; and none if the others
        would be done with everything before this learner is with one more, if it would be late, or cannot be paid.
        """
        taker = self._takers.get(learner)
        if taker is None or not self.num_left:
            return 0
        if taker.num_last:
            taker = self._takers[learner] = taker.finished(at)
        one_more_at = at + taker.shard_seconds
        count = 0
        if one_more_at <= self._due_seconds and self._done_without(learner, at) > one_more_at:
            count = max(1, self.num_left // (2 * len(self._takers)))
        while count and not self._can_be_paid(taker, count):
            count //= 2
        if count:
            self.num_left -= count
            self._takers[learner] = taker.given(count)
        else:  # it hands in what it has: the others cannot count on it any longer
            self._budget -= taker.num_shards * taker.price
            del self._takers[learner]
        return count

    def _done_without(self, learner: str, at: float) -> float:
        """Return when the others would be done with all that is left."""
        money = self._budget * (1 + 1e-9) - sum(taker.num_shards * taker.price for taker in self._takers.values())
        ends = [
            (max(taker.done_at, at) + taker.shard_seconds, taker.shard_seconds)
            for name, taker in self._takers.items()
            if name != learner and self.num_left * taker.price <= money
        ]
        if not ends:
            return math.inf
        heapq.heapify(ends)
        last = at
        for _ in range(self.num_left):
            last, seconds = ends[0]
            heapq.heapreplace(ends, (last + seconds, seconds))
        return last

    def _can_be_paid(self, taker: Taker, count: int) -> bool:
        """Return whether there is money for that, and for the cheapest to do the rest."""
        taken = sum(other.num_shards * other.price for other in self._takers.values())
        rest = (self.num_left - count) * min(other.price for other in self._takers.values())
        return taken + count * taker.price + rest <= self._budget * (1 + 1e-9)
