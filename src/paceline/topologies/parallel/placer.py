"""Places the learners of a pool in its jobs by its policy, and somehow if that fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from paceline.allocation import Assignment, Demand, Placement, PoolPolicy
from paceline.allocation.unsolved import assign_unsolved
from paceline.errors import in_one_line
from paceline.topologies.parallel.ledger import Ledger


class Placer:
    """Solves the placing of a pool, within what is left of its money.

    Attributes:
        last: the last placing in which there was anybody, by learner.
    """

    def __init__(self, policy: PoolPolicy, ledger: Ledger) -> None:
        self._policy = policy
        self._ledger = ledger
        self.last: Mapping[str, Placement] = {}

    def assign(self, demands: Sequence[Demand]) -> Assignment:
        """Solve the problem; if the solver fails, learners stay where they are, as far as they can."""
        left = self._ledger.left
        try:
            return self._policy.assign(demands, left)
        except Exception as error:  # whatever goes wrong in a policy, the pool goes on
            most = left if self._policy.budget is None else min(self._policy.budget, left)
            return assign_unsolved(demands, self.last, most, in_one_line(error, is_named=True))

    def lacking_money(self, demands: Sequence[Demand], hindered: Mapping[str, str]) -> frozenset[str]:
        """Return which of the jobs that cannot be done could be if more were left of the pool's money."""
        if self._ledger.left == math.inf or not hindered:
            return frozenset()
        return frozenset(hindered) - self._policy.assign(demands).hindered.keys()
