"""Shards that are held back when a round opens, for whoever is done first: nobody's speed is known beforehand."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Mate:
    """A learner of a team, as far as its pace is known.

    Attributes:
        num_shards: that it took so far.
        num_last: of them, those that it took last.
        shard_seconds: that one takes it; as expected, and later as seen.
        price: of one.
        began_at: when it began with the last, in seconds after the round opened.
    """

    num_shards: int
    num_last: int
    shard_seconds: float
    price: float
    began_at: float

    @property
    def done_at(self) -> float:
        """When it is expected to be done."""
        return self.began_at + self.num_last * self.shard_seconds

    def seen_at(self, at: float) -> Mate:
        """The same, now that it is known to be done."""
        return replace(self, shard_seconds=max(at - self.began_at, 0.0) / self.num_last, num_last=0, began_at=at)

    def given(self, count: int) -> Mate:
        """The same, with so many more."""
        return replace(self, num_shards=self.num_shards + count, num_last=count)


class Pot:
    """The shards of a round that nobody has taken yet.

    Args:
        num_shards: in it.
        mates: who may take from it, by name, with what they took as the round opened.
        budget: for all shards of the round; infinite if there is none.
        due_seconds: the deadline, after the round opened.
    """

    def __init__(self, num_shards: int, mates: Mapping[str, Mate], *, budget: float, due_seconds: float) -> None:
        self.num_left = num_shards
        self._mates = dict(mates)
        self._budget = budget
        self._due_seconds = due_seconds

    def draw(self, learner: str, at: float) -> int:
        """How many shards a learner gets that is done with its own, `at` seconds after the round opened.

        Half of an equal share of what is left, so that all are done at about the same time; and none if the others
        would be done with everything before this learner is with one more, if it would be late, or cannot be paid.
        """
        mate = self._mates.get(learner)
        if mate is None or not self.num_left:
            return 0
        if mate.num_last:
            mate = self._mates[learner] = mate.seen_at(at)
        one_more_at = at + mate.shard_seconds
        count = 0
        if one_more_at <= self._due_seconds and self._done_without(learner, at) > one_more_at:
            count = max(1, self.num_left // (2 * len(self._mates)))
        while count and not self._can_be_paid(mate, count):
            count //= 2
        if count:
            self.num_left -= count
            self._mates[learner] = mate.given(count)
        else:  # it hands in what it has: the others cannot count on it any longer
            self._budget -= mate.num_shards * mate.price
            del self._mates[learner]
        return count

    def _done_without(self, learner: str, at: float) -> float:
        """When the others would be done with all that is left."""
        money = self._budget * (1 + 1e-9) - sum(mate.num_shards * mate.price for mate in self._mates.values())
        ends = [
            (max(mate.done_at, at) + mate.shard_seconds, mate.shard_seconds)
            for name, mate in self._mates.items()
            if name != learner and self.num_left * mate.price <= money
        ]
        if not ends:
            return math.inf
        heapq.heapify(ends)
        last = at
        for _ in range(self.num_left):
            last, seconds = ends[0]
            heapq.heapreplace(ends, (last + seconds, seconds))
        return last

    def _can_be_paid(self, mate: Mate, count: int) -> bool:
        """Whether there is money for that, and for the cheapest to do the rest."""
        taken = sum(other.num_shards * other.price for other in self._mates.values())
        rest = (self.num_left - count) * min(other.price for other in self._mates.values())
        return taken + count * mate.price + rest <= self._budget * (1 + 1e-9)
