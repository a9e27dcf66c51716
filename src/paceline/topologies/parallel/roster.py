"""Who takes part in a run."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from paceline.allocation import Candidate
from paceline.topologies.parallel.messages import MAX_NAME_LENGTH, Standing

MAX_LEARNERS = 100_000
"""That may join a run, by name; those that left included."""

_MISSED_ROUNDS = 2  # without a sign of life, then a learner counts as gone

NAME = re.compile(rf"[\w.@-][\w.@ -]{{0,{MAX_NAME_LENGTH - 1}}}")
NAME_RULE = f"allowed: 1 to {MAX_NAME_LENGTH} letters, digits, and . _ - @, with spaces between"
"""What a learner may be called."""


@dataclass
class Member:
    """A learner that joined.

    Attributes:
        is_ready: whether it will take part in the next round that opens.
        num_missed: rounds in a row in which nothing was heard of it.
        price: that it asks for a shard.
        seat: the job that it is in; empty if there is but one, or none yet.
        standings: what it told of itself, by job.
        state: that it is in, if it tells.
        former: whose place it took.
    """

    name: str
    session: str
    is_ready: bool = False
    has_been_ready: bool = False
    price: float = 0.0
    seat: str = ""
    standings: dict[str, Standing] = field(default_factory=dict)
    state: str | None = None
    num_missed: int = 0
    former: Member | None = None

    def as_candidate(self, job: str = "") -> Candidate:
        """The member as a policy sees it, by what it told when it was in this job."""
        told = self.standings.get(job) or Standing()
        return Candidate(
            name=self.name,
            profile=told.profile,
            max_shards=told.max_shards,
            price=self.price,
            outlook=told.outlook,
            state=self.state or told.state,
        )


class Roster:
    """The learners of a run, by session and by name."""

    def __init__(self) -> None:
        self._by_session: dict[str, Member] = {}
        self._by_name: dict[str, Member] = {}
        self._seen: set[str] = set()
        self._excluded: dict[str, str] = {}
        self.num_ready = 0

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def join(self, name: str) -> tuple[Member, bool]:
        """A new member, and whether one of that name was there before; raises `ValueError` for one that cannot be."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} cannot be a learner's name; {NAME_RULE}")
        if name in self._excluded:
            raise ValueError(f"{name!r} is excluded from this run: {self._excluded[name]}")
        is_back = name in self._seen
        if not is_back and len(self._seen) >= MAX_LEARNERS:
            raise ValueError(f"{MAX_LEARNERS} learners have joined this run; no others can")
        former = self._by_name.get(name)
        if former is not None:
            self.remove(former)
            self._by_session[former.session] = former  # to tell it, should it still be there
        member = Member(name, secrets.token_hex(16), former=former)
        self._by_session[member.session] = self._by_name[name] = member
        self._seen.add(name)
        return member, is_back

    def find(self, session: str) -> Member:
        """The member of a session; raises `LookupError`, or `RuntimeError` if another one has taken its place."""
        member = self._by_session.get(session)
        if member is None:
            raise LookupError("this session is not known here; join again")
        if self._by_name.get(member.name) is not member:
            raise RuntimeError(f"another learner has joined as {member.name!r}; each needs a name of its own")
        member.num_missed = 0
        return member

    def named(self, name: str) -> Member | None:
        """The member of this name, if there is one."""
        return self._by_name.get(name)

    def set_ready(self, member: Member, is_ready: bool) -> None:
        """Say whether a member will take part in the next round."""
        if self._by_name.get(member.name) is member:
            self.num_ready += is_ready - member.is_ready
            member.is_ready = is_ready
            member.has_been_ready |= is_ready

    def remove(self, member: Member) -> None:
        """Forget a member and its session."""
        self.set_ready(member, False)
        self._by_session.pop(member.session, None)
        if member.former is not None:
            self._by_session.pop(member.former.session, None)
            member.former = None
        if self._by_name.get(member.name) is member:
            del self._by_name[member.name]

    def exclude(self, name: str, reason: str) -> None:
        """Forget a member, and let nobody join under its name again."""
        self._excluded[name] = reason
        member = self._by_name.get(name)
        if member is not None:
            self.remove(member)

    @property
    def are_all_told(self) -> bool:
        """Whether nobody is left who may still ask: all were removed, but those long not heard of, or never ready."""
        return not any(member.has_been_ready and member.num_missed < _MISSED_ROUNDS for member in self)

    @property
    def ready(self) -> list[Member]:
        """Those that will take part in the next round, in the order of joining."""
        return [member for member in self if member.is_ready]

    def count_missed(self) -> list[Member]:
        """Count a round for those that are not heard of; returns, and forgets, who missed too many."""
        for member in self:
            member.num_missed += member.has_been_ready and not member.is_ready  # before, it measures itself
        gone = [member for member in self if member.num_missed > _MISSED_ROUNDS]
        for member in gone:
            self.remove(member)
        return gone
