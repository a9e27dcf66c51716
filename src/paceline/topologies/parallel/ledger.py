"""The ledger of a pool: what each learner trained and was paid, and never more than there is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from paceline.topologies.parallel.events import LearnerPaid
from paceline.topologies.parallel.rounds import OpenRound

_ROUNDING = 1e-9  # as a ratio: a sum of many prices is not exact


class Ledger:
    """Money of a pool. A round's whole cost is committed when it opens; what was trained is paid when it closes.

    Args:
        total_budget: limit of all that is ever paid; None for no limit.
        spent: sum paid before, in a pool that goes on.

    Attributes:
        spent: sum paid so far.
    """

    def __init__(self, total_budget: float | None, spent: float = 0.0) -> None:
        self._total = math.inf if total_budget is None else total_budget
        self._committed: dict[str, float] = {}
        self.spent = spent

    @property
    def left(self) -> float:
        """Budget neither spent nor committed."""
        return math.inf if self._total == math.inf else self._total - self.spent - sum(self._committed.values())

    def commit(self, job: str, cost: float, *, spare: float = 0.0) -> bool:
        """Commit what a round of a job is to cost, and a spare sum if there is enough; False if there is too little.

        If the whole is limited, the spare sum is as much again at most: other jobs want to be paid, too.
        """
        if cost > self.left * (1 + _ROUNDING):
            return False
        most = math.inf if self._total == math.inf else max(cost, min(2 * cost, self.left))
        self._committed[job] = min(cost + spare, most)
        return True

    def is_committed(self, job: str) -> bool:
        """Return whether a round of a job is open, and not settled."""
        return job in self._committed

    def committed(self, job: str) -> float:
        """Return the sum committed to the open round of a job."""
        return self._committed[job]

    def settle(
        self, job: str, closed: OpenRound, prices: Mapping[str, float], shard_samples: int, at: float
    ) -> list[LearnerPaid]:
        """Pay for the updates that count, and free the rest of what was committed; returns the new lines."""
        lines = [
            self._line(closed, learner, shard_samples, at=at, job=job, price=prices.get(learner, 0.0))
            for learner in sorted(closed.shares)
        ]
        self._committed.pop(job, None)
        self.spent = math.fsum((self.spent, *(line.amount for line in lines)))
        return lines

    @staticmethod
    def _line(closed: OpenRound, learner: str, shard_samples: int, *, at: float, job: str, price: float) -> LearnerPaid:
        share, num_samples = closed.shares[learner], closed.delivered.get(learner, 0)
        # The last shard of a dataset may be a small one: never more than what was taken.
        shards = min(num_samples / (share.local_epochs * shard_samples), float(share.num_shards))
        return LearnerPaid(
            at=at,
            job=job,
            round=closed.number,
            learner=learner,
            num_shards=share.num_shards,
            num_samples=num_samples,
            shards=shards,
            price=price,
            amount=shards * price,
        )
