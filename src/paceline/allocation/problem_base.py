"""Problems and replies of ``paceline allocate``: input and output of every solver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from paceline.errors import ConfigError

MAX_LEARNERS = 100_000
T = TypeVar("T")

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Learners: TypeAlias = Annotated[list[T], Meta(min_length=1, max_length=MAX_LEARNERS)]


class AllocatedShare(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Share of one learner, counted in shards or in samples, as the problem is."""

    learner: str
    task: str | None = None
    shards: int | None = None
    samples: int | None = None
    iterations: int


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a solver.

    Attributes:
        status: optimal if the objective meets the bound; feasible if a better allocation may exist.
        objective: objective in the problem's terms; None if infeasible.
        bound: proven bound of the objective; None if infeasible.
        cost: payment of the learners; None where they have no prices.
        solve_seconds: duration, set by the caller, since solvers read no clock.
        reason: constraint that cannot be met, if infeasible.
    """

    status: Literal["optimal", "feasible", "infeasible"]
    objective: float | None = None
    bound: float | None = None
    allocation: list[AllocatedShare] = []
    cost: float | None = None
    solve_seconds: float = 0.0
    reason: str | None = None


class Problem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all problems; a problem's fields, its `learners` among them, are the keys of its JSON.

    Attributes:
        objective_name: label of the objective.
    """

    objective_name: ClassVar[str]

    def __post_init__(self) -> None:
        learners: list[Any] = getattr(self, "learners", [])
        check_unique((learner.name for learner in learners), "learners")

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """Find the best allocation, or a good one within the time limit."""
        raise NotImplementedError


def check_unique(names: Iterable[str], what: str) -> None:
    """Raise `ConfigError` if a name occurs twice."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            raise ConfigError(f"{what}[{index}].name is {name!r}, as in {what}[{seen[name]}]; names must differ")
        seen[name] = index
