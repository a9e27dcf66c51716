"""CSA: the shares of a cycle with the least staleness, exactly and by the paper's two methods."""

from paceline.allocation.csa.policy import CsaAllocation
from paceline.allocation.csa.problem import CsaProblem, RelaxedCsaProblem, SuggestedCsaProblem

__all__ = ["CsaAllocation", "CsaProblem", "RelaxedCsaProblem", "SuggestedCsaProblem"]
