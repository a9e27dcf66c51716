"""Who takes part, as far as a peer knows: records that peers tell each other, the newer one winning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from paceline.errors import ConfigError
from paceline.topologies.gossip.stores import Figures
from paceline.topologies.parallel.roster import NAME, NAME_RULE

MAX_MEMBERS = 4096
"""That a peer keeps in mind, those that are gone included."""

MAX_COUNT = 1 << 53
"""Of whatever peers count: what a float still holds exactly."""

MAX_PARTS = 64
"""Of the training data, that a peer holds; with these, what is known of all stays below the limits of a message."""

_MAX_LIFE = 1 << 62  # nanoseconds, in live runs
_MAX_EXECUTORS = 64
_MAX_TOLD_BYTES = 1 << 23

Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
"""A number that another peer tells."""
Name: TypeAlias = Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
"""A peer's name as another tells it."""

_RANK = {"alive": 0, "dead": 1, "left": 2}


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a peer. Only the peer itself changes its record, except that others may call it dead.

    Limits hold for what comes from others; a record that breaks them is refused, with all that came with it.

    Attributes:
        address: where it is called; empty before it can be.
        fingerprint: of its self-made certificate; None without TLS.
        life: grows when a peer comes back under its name.
        beat: grows whenever the peer changes its record.
        first_epoch: from which on it takes part in mixing.
        epoch: the last that it has trained.
        is_done: whether it has trained all epochs.
        parts: of the training data, that it holds; the first is its own. Empty if its data is known to nobody else.
        figures: what it told of its speed.
    """

    name: Name
    address: Annotated[str, Meta(max_length=300, pattern=r"\Ahttps?://[!-~]+\Z|\A\Z")]
    life: Annotated[int, Meta(ge=0, le=_MAX_LIFE)]
    fingerprint: Annotated[str, Meta(max_length=128, pattern=r"\A[!-~]+\Z")] | None = None
    beat: Count = 0
    status: Literal["alive", "dead", "left"] = "alive"
    first_epoch: Count = 1
    epoch: Count = 0
    is_done: bool = False
    parts: Annotated[tuple[Count, ...], Meta(max_length=MAX_PARTS)] = ()
    figures: Figures | None = None

    def __post_init__(self) -> None:
        told = self.figures
        if told is None:
            return
        if told.learner != self.name:
            raise ValueError(f"{self.name} brings the figures of {told.learner}")
        if max(told.num_samples, told.epoch) > MAX_COUNT or len(told.executors) > _MAX_EXECUTORS:
            raise ValueError(f"the figures of {self.name} are beyond all measure")

    @property
    def is_living(self) -> bool:
        """Whether it takes part."""
        return self.status == "alive"

    def is_newer_than(self, other: Member) -> bool:
        """Whether this record replaces another of the same name; at the same beat, death wins."""
        return (self.life, self.beat, _RANK[self.status]) > (other.life, other.beat, _RANK[other.status])


Told: TypeAlias = Annotated[bytes, Meta(max_length=_MAX_TOLD_BYTES)]
"""Records of many peers in one piece, which costs a message little however many they are; see `Membership.told`."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Annotated[list[Member], Meta(max_length=MAX_MEMBERS)])

OnChange: TypeAlias = Callable[[Member, str], None]
"""Given the new record of another peer that appears, comes back or goes, and why it is gone."""


class Membership:
    """A peer's own record and what it knows of others.

    Args:
        on_change: see `watch`.
        epochs: of the job; nobody can have trained more.

    Attributes:
        rival: a later life under this peer's own name that others tell of; None if there is none.
    """

    def __init__(
        self, me: Member, on_change: OnChange = lambda member, reason: None, *, epochs: int = MAX_COUNT
    ) -> None:
        self._members = {me.name: me}
        self._told: bytes | None = None  # as long as nothing changes
        self._name = me.name
        self._epochs = epochs
        self._watchers = [on_change]
        self.rival: Member | None = None

    @property
    def me(self) -> Member:
        """This peer's own record."""
        return self._members[self._name]

    def watch(self, on_change: OnChange) -> None:
        """Have a function told of every other peer that appears, comes back or goes."""
        self._watchers.append(on_change)

    def amend(self, **changes: Any) -> None:
        """Change the own record."""
        self._put(msgspec.structs.replace(self.me, beat=self.me.beat + 1, **changes))

    def told(self) -> bytes:
        """All records as they are told to others; the own one is kept back until this peer can be called."""
        if self._told is None:
            self._told = _encoder.encode([member for member in self.everybody() if member.address])
        return self._told

    def hear(self, told: bytes) -> None:
        """Learn from what another told; raises `ValueError` for rubbish, and learns nothing from it."""
        if told == self._told:
            return
        try:
            records = _decoder.decode(told)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"what is told of the peers is rubbish: {error}") from None
        self.merge(records)

    def merge(self, records: Iterable[Member], reason: str = "others say so") -> None:
        """Learn from others; whoever is told to be dead and is not, contradicts."""
        for record in records:
            if not record.address or max(record.epoch, record.first_epoch) > self._epochs:
                continue
            if record.name == self._name:
                self._hear_of_itself(record)
                continue
            known = self._members.get(record.name)
            if known is None and len(self._members) >= MAX_MEMBERS:
                continue
            if known is None or record.is_newer_than(known):
                self._put(record)
                was_living = known is not None and known.is_living and known.life == record.life
                if record.is_living != was_living:
                    self._tell(record, "" if record.is_living else _why_gone(record, reason))

    def bury(self, name: str, reason: str) -> None:
        """Take another for gone."""
        known = self._members.get(name)
        if known is not None and name != self._name and known.is_living:
            self.merge([msgspec.structs.replace(known, status="dead")], reason)

    def outlive(self, record: Member) -> None:
        """Contradict a record of this peer that it never made, by a life after that one, if there can be one."""
        self.rival = None
        if record.life < _MAX_LIFE:
            self._put(msgspec.structs.replace(self.me, life=record.life + 1, beat=0))

    def get(self, name: str) -> Member | None:
        """The record of a peer, whether it is there or gone."""
        return self._members.get(name)

    def living(self) -> list[Member]:
        """All that take part, this one included, by name."""
        return [member for _, member in sorted(self._members.items()) if member.is_living]

    def others(self) -> list[Member]:
        """The living but this one."""
        return [member for member in self.living() if member.name != self._name]

    def everybody(self) -> list[Member]:
        """All records, by name."""
        return [member for _, member in sorted(self._members.items())]

    def _put(self, record: Member) -> None:
        self._members[record.name] = record
        self._told = None

    def _hear_of_itself(self, record: Member) -> None:
        me = self.me
        if record.life > me.life:
            self.rival = record
        elif record.life == me.life and record.beat > me.beat:
            self.outlive(record)  # others never raise a beat: it is made up
        elif record.life == me.life and record.is_newer_than(me):
            self.amend()

    def _tell(self, record: Member, reason: str) -> None:
        for watcher in self._watchers:
            watcher(record, reason)


def _why_gone(record: Member, reason: str) -> str:
    return "it said goodbye" if record.status == "left" else reason


def check_name(name: str) -> None:
    """Raise `ConfigError` for what no peer can be called."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"name is {name[:80]!r}; {NAME_RULE}")
