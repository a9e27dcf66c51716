"""What tokens are for: roles, what each may do, and what a call needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["learner", "submitter", "viewer", "admin"]
"""What somebody with a token is to a host; devices are learners in every topology."""

Right: TypeAlias = Literal["join", "submit", "view", "administer"]

ROLES: Mapping[Role, frozenset[Right]] = {
    "learner": frozenset(("join", "view")),
    "submitter": frozenset(("submit", "view")),
    "viewer": frozenset(("view",)),
    "admin": frozenset(("join", "submit", "view", "administer")),
}
"""Rights of each role."""

OPEN: frozenset[Right] = frozenset(("join", "submit", "view"))
"""Rights of everybody, where no token is needed."""

_DOING: Mapping[Right, str] = {
    "join": "take part",
    "submit": "submit jobs",
    "view": "see how far a run is",
    "administer": "invite or revoke",
}
_ROLE_OF: Mapping[Right, Role] = {"join": "learner", "submit": "submitter", "view": "viewer", "administer": "admin"}


def wrong_role(role: Role | None, needed: Right) -> str:
    """Say that somebody of a role may not do something; None is for somebody without a token that is known."""
    kind = "without a token, callers are" if role is None else f"this token is for the role {role}, which is"
    return f"{kind} not allowed to {_DOING[needed]}; use a token of the role {_ROLE_OF[needed]} (paceline invite)"
