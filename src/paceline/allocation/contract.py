"""Problems and replies of ``paceline allocate``: what every solver takes and gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from paceline.errors import ConfigError

MAX_LEARNERS = 100_000
MOST = 10**15
"""Beyond this, no count, size, rate or time is plausible."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Positive: TypeAlias = Annotated[float, Meta(gt=0, le=MOST)]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0, le=MOST)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST)]
CountOrZero: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]


class AllocatedShare(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one learner gets; counted in shards or in samples, as the problem is."""

    learner: str
    task: str | None = None
    shards: int | None = None
    samples: int | None = None
    iterations: int


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a solver found.

    Attributes:
        status: optimal if the objective meets the bound; feasible if a better allocation may exist.
        objective: in the problem's terms; None if infeasible.
        bound: no allocation can have a better objective; None if infeasible.
        cost: what the learners are paid; None where they have no prices.
        solve_seconds: set by the caller, since solvers read no clock.
        reason: which constraint cannot be met, if infeasible.
    """

    status: Literal["optimal", "feasible", "infeasible"]
    objective: float | None = None
    bound: float | None = None
    allocation: list[AllocatedShare] = []
    cost: float | None = None
    solve_seconds: float = 0.0
    reason: str | None = None


class Problem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all problems; a problem's fields are the keys of its JSON.

    Attributes:
        objective_name: what the objective counts, for people.
    """

    objective_name: ClassVar[str]

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """The best allocation, or the best that was found when the time was up."""
        raise NotImplementedError


def check_unique(names: Iterable[str], what: str) -> None:
    """Raise `ConfigError` if a name occurs twice."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            raise ConfigError(f"{what}[{index}].name is {name!r}, as in {what}[{seen[name]}]; names must differ")
        seen[name] = index
