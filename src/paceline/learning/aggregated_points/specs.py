"""Settings of point aggregation: the ``[points]`` table of a job."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paceline.checks import Count, Spec, check_fields
from paceline.learning.aggregated_points.division import DIVISIONS
from paceline.learning.aggregated_points.reduction import REDUCTIONS
from paceline.spelling import check_known

COMPARED = (
    *(("svd", "k-means"), ("incremental-svd", "lsh"), ("hash", "k-means")),
    *(("svd", "gmm"), ("pca", "k-means"), ("pca", "lsh"), ("whole-svd", "lsh"), ("histogram", "k-means")),
)
"""Reductions and divisions that Han et al. (2021) compare in Fig. 3; the first three are their choice."""


class PointsSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How samples become points; `ValueError` for an unknown name or a value out of range.

    The paper chooses the first three of `COMPARED`. Any other pair works too.

    Attributes:
        reduction: how samples are reduced to a few features; a name in `REDUCTIONS`.
        division: how a class is divided into sets; a name in `DIVISIONS`.
        ratio: original samples per point, on average.
        seed: seed of random draws.
    """

    reduction: str = "svd"
    division: str = "k-means"
    ratio: Count = 10
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0

    def __post_init__(self) -> None:
        check_fields(self)
        check_known("reduction", self.reduction, REDUCTIONS)
        check_known("division", self.division, DIVISIONS)
