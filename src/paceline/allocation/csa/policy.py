"""CSA as a policy: shards instead of samples, from the profiles of all learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.allocation.central import CentralAllocation

if TYPE_CHECKING:
    from paceline.allocation.csa.steps import Counts, Steps


@dataclass(frozen=True, kw_only=True)
class CsaAllocation(CentralAllocation):
    """The least staleness: each learner does as many local epochs as fit, and these differ as little as possible.

    Exact, as in `CsaProblem`, in shards instead of samples.
    """

    def _share_out(self, steps: Steps, total: int) -> tuple[Counts, Counts]:
        from paceline.allocation.csa.exact import least_staleness

        plan = least_staleness(steps, total, self.min_local_epochs)
        return plan.counts, plan.local_epochs
