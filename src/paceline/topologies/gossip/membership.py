"""Who takes part, as far as a peer knows: records that peers pass on to each other, the newer one winning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from paceline.axon.keys import DeviceKey, is_signed
from paceline.learning.early_stopping import StopReason
from paceline.topologies.gossip.figures import Figures
from paceline.topologies.sessions import NAME

MAX_MEMBERS = 4096
"""Peers that a peer keeps records of, those that are gone included."""

MAX_COUNT = 1 << 53
"""Limit of whatever peers count: what a float still holds exactly."""

MAX_PARTS = 64
"""Parts of the training data that a peer may hold; with these, all records stay below the limits of a message."""

MAX_ENCODED_BYTES = 1 << 23
"""Bytes that the records of all peers may take in a message."""

MAX_GONE = 1024
"""Records of peers that are gone; the oldest are dropped first, those that said goodbye before those that died."""

_MAX_LIFE = 1 << 62  # nanoseconds, in live runs
_MAX_KEY = 64  # characters

Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
"""A number that another peer sent."""
Name: TypeAlias = Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
"""A peer's name that another sent."""

Life: TypeAlias = Annotated[int, Meta(ge=0, le=_MAX_LIFE)]
"""Number of the life that a peer is in."""
Key: TypeAlias = Annotated[str, Meta(max_length=_MAX_KEY)]
"""A peer's public key that another sent."""
Signature: TypeAlias = Annotated[bytes, Meta(max_length=64)]
"""A signature by such a key."""

_RANK = {"alive": 0, "dead": 1, "left": 2}


class PeerRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a peer. Only the peer itself changes its record, except that others may declare it dead.

    Where it is called, by which relay, and in which life, is signed with its key: nobody else can say so. The rest is
    not: it changes all the time, and leads nobody elsewhere.

    Limits hold for what comes from others; a record that breaks them is refused, with all that came with it.

    Attributes:
        address: where it is called, or its relay is; empty before it can be.
        fingerprint: digest of the self-made certificate there; None without TLS.
        life: grows when a peer comes back under its name.
        relay: the peer that holds calls to this one, which cannot be called; None if it can.
        moves: grows, within a life, whenever the peer takes another relay.
        key: its public key; empty on virtual time, where nobody lies.
        signature: of what is said of where it is called; empty without a key.
        beat: grows whenever the peer changes its record.
        first_epoch: the epoch from which on it takes part in mixing.
        epoch: the last that it has trained.
        is_done: whether it trains no more epochs.
        why_enough: why it is for ending the run before the last epoch; it never takes that back.
        parts: parts of the training data that it holds; the first is its own. Empty if nobody else knows its data.
        figures: its speed, as it published it.
    """

    name: Name
    address: Annotated[str, Meta(max_length=300, pattern=r"\Ahttps?://[!-~]+\Z|\A\Z")]
    life: Life
    fingerprint: Annotated[str, Meta(max_length=128, pattern=r"\A[!-~]+\Z")] | None = None
    relay: Name | None = None
    moves: Count = 0
    key: Key = ""
    signature: Signature = b""
    beat: Count = 0
    status: Literal["alive", "dead", "left"] = "alive"
    first_epoch: Count = 1
    epoch: Count = 0
    is_done: bool = False
    why_enough: StopReason | None = None
    parts: Annotated[tuple[Count, ...], Meta(max_length=MAX_PARTS)] = ()
    figures: Figures | None = None

    def __post_init__(self) -> None:
        if (figures := self.figures) is None:
            return
        if figures.learner != self.name or max(figures.num_samples, figures.epoch) > MAX_COUNT:
            raise ValueError(f"{self.name} sent figures of another peer, or out of range")

    @property
    def is_living(self) -> bool:
        """Whether it takes part."""
        return self.status == "alive"

    def is_signed_like(self, other: PeerRecord) -> bool:
        """Return whether it says the same of where the peer is called, signed in the same way."""
        return (self._said, self.key, self.signature) == (other._said, other.key, other.signature)

    def is_newer_than(self, other: PeerRecord) -> bool:
        """Return whether this record replaces another of the same name; at the same beat, death wins."""
        return (*self._order, _RANK[self.status]) > (*other._order, _RANK[other.status])

    def is_later_than(self, other: PeerRecord) -> bool:
        """Return whether the peer itself must have made it after another one."""
        return self._order > other._order

    def statement(self, job: str) -> bytes:
        """Return what the peer signs of it, in a job."""
        return _encoder.encode(("paceline gossip", job, *self._said))

    @property
    def _said(self) -> tuple[object, ...]:
        return (self.name, self.life, self.address, self.fingerprint, self.relay, self.moves)

    @property
    def _order(self) -> tuple[int, int, int]:
        return (self.life, self.moves, self.beat)


EncodedRecords: TypeAlias = Annotated[bytes, Meta(max_length=MAX_ENCODED_BYTES)]
"""Records of many peers in one piece, which costs a message little however many they are; see `Membership.encoded`."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Annotated[list[PeerRecord], Meta(max_length=MAX_MEMBERS)])

OnChange: TypeAlias = Callable[[PeerRecord, str], None]
"""Receives the new record of another peer that appears, comes back or goes, and why it is gone."""


class Signer:
    """Signs a peer's own record, and judges those of others.

    Args:
        job: fingerprint of the job, so that a record counts in no other.
        key: key of the peer; without one, nothing is signed, and all is believed.
        uses_tls: whether only peers with TLS are called, and their certificates known.
    """

    def __init__(self, job: str = "", key: DeviceKey | None = None, *, uses_tls: bool = False) -> None:
        self._job = job
        self._key = key
        self._uses_tls = uses_tls

    def signed(self, record: PeerRecord) -> PeerRecord:
        """Return the own record, signed as it is now."""
        if self._key is None:
            return record
        record = msgspec.structs.replace(record, key=self._key.public)
        return msgspec.structs.replace(record, signature=self._key.sign(record.statement(self._job)))

    def why_refused(self, record: PeerRecord, known: PeerRecord | None) -> str | None:
        """Return why a record is not to be believed; None if it is. A name is bound to its first key.

        Raises `ValueError` for a wrong signature: nobody passes on such a record by mistake.

        Args:
            known: what is known of the same peer.
        """
        if known is not None and record.is_signed_like(known):
            return None
        if self._uses_tls and not (record.fingerprint and record.address.startswith("https://")):
            return f"{record.name!r} has no TLS, and this peer calls nobody without: start all with --tls, or none"
        if self._key is None:
            return None if record.relay is None else f"{record.name!r} is called by a relay, and here are no keys"
        if known is not None and record.key != known.key:
            return f"{record.name!r} is another device's name: give each a name of its own"
        if not is_signed(record.key, record.statement(self._job), record.signature):
            raise ValueError(f"the record of {record.name!r} is not signed with its key")
        return None


class Membership:
    """A peer's own record and those that it has of others.

    Args:
        on_change: see `watch`.
        epochs: number of epochs of the job; nobody can have trained more.
        signer: decides which records are believed.

    Attributes:
        rival: record of a later life under this peer's own name that others sent; None if there is none.
        num_missed: times that others took this peer for gone where it is called now.
    """

    def __init__(
        self,
        me: PeerRecord,
        on_change: OnChange = lambda record, reason: None,
        *,
        epochs: int = MAX_COUNT,
        signer: Signer | None = None,
    ) -> None:
        self._signer = signer or Signer()
        self._records = {me.name: self._signer.signed(me)}
        self._encoded: bytes | None = None  # as long as nothing changes
        self._name = me.name
        self._epochs = epochs
        self._watchers = [on_change]
        self._move_watchers: list[Callable[[PeerRecord], None]] = []
        self.rival: PeerRecord | None = None
        self.num_missed = 0

    @property
    def me(self) -> PeerRecord:
        """This peer's own record."""
        return self._records[self._name]

    def watch(self, on_change: OnChange) -> None:
        """Call a function for every other peer that appears, comes back or goes."""
        self._watchers.append(on_change)

    def watch_moves(self, on_move: Callable[[PeerRecord], None]) -> None:
        """Call a function for every other living peer that is called elsewhere from now on, in the same life."""
        self._move_watchers.append(on_move)

    def amend(self, **changes: Any) -> None:
        """Change the own record."""
        changed = msgspec.structs.replace(self.me, beat=self.me.beat + 1, **changes)
        self._put(changed if "address" not in changes else self._signer.signed(changed))

    def move(self, relay: PeerRecord) -> None:
        """Be called by way of a relay from now on."""
        self.amend(address=relay.address, fingerprint=relay.fingerprint, relay=relay.name, moves=self.me.moves + 1)

    def encoded(self) -> bytes:
        """Return all records as they are sent to others; the own one is kept back until this peer can be called."""
        if self._encoded is None:
            self._encoded = _encoder.encode([record for record in self.everybody() if record.address])
        return self._encoded

    def merge_encoded(self, encoded: bytes) -> Mapping[str, str]:
        """Learn from records that another sent; raises `ValueError` if they are malformed, and learns nothing.

        Returns why records were refused, by peer.
        """
        if encoded == self._encoded:
            return {}
        try:
            records = _decoder.decode(encoded)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"the records of the peers are malformed: {error}") from None
        return self.merge(records)

    def merge(self, records: Iterable[PeerRecord], reason: str = "others say so") -> Mapping[str, str]:
        """Learn from others; a peer that reads of its own death contradicts. Returns why records were refused."""
        refused: dict[str, str] = {}
        for record in records:
            known = self._records.get(record.name)
            # One that went on after its last epoch trains no more, so its first is the one after that.
            if not record.address or max(record.epoch, record.first_epoch - 1) > self._epochs:
                continue
            if known is not None and not record.is_newer_than(known):
                continue
            if (why := self._signer.why_refused(record, known)) is not None:
                refused[record.name] = why
            elif record.name == self._name:
                self._merge_own(record)
            elif known is not None or len(self._records) < MAX_MEMBERS:
                self._put(record)
                was_living = known is not None and known.is_living and known.life == record.life
                if record.is_living != was_living:
                    why = "it said goodbye" if record.status == "left" else reason
                    for watcher in self._watchers:
                        watcher(record, "" if record.is_living else why)
                elif record.is_living and known is not None and not record.is_signed_like(known):
                    for on_move in self._move_watchers:
                        on_move(record)
        self._drop_oldest()
        return refused

    def declare_dead(self, name: str, reason: str) -> None:
        """Take another for gone."""
        known = self._records.get(name)
        if known is not None and name != self._name and known.is_living:
            self.merge([msgspec.structs.replace(known, status="dead")], reason)

    def refute(self, record: PeerRecord) -> None:
        """Contradict a record of this peer that it never made, by a life after that one, if there can be one."""
        self.rival = None
        if record.life < _MAX_LIFE:
            self._put(self._signer.signed(msgspec.structs.replace(self.me, life=record.life + 1, beat=0)))

    def get(self, name: str) -> PeerRecord | None:
        """Return the record of a peer, whether it is there or gone."""
        return self._records.get(name)

    def living(self) -> list[PeerRecord]:
        """Return all that take part, this one included, by name."""
        return [record for record in self.everybody() if record.is_living]

    def others(self) -> list[PeerRecord]:
        """Return the living but this one."""
        return [record for record in self.living() if record.name != self._name]

    def why_over(self) -> StopReason | None:
        """Return why more than half of the living are for ending the run, by most of them; None if they go on."""
        living = self.living()
        reasons = [record.why_enough for record in living if record.why_enough is not None]
        if 2 * len(reasons) <= len(living):
            return None
        return max(sorted(set(reasons)), key=reasons.count)

    def everybody(self) -> list[PeerRecord]:
        """Return all records, by name."""
        return [record for _, record in sorted(self._records.items())]

    def _put(self, record: PeerRecord) -> None:
        if not record.is_living:
            self._records.pop(record.name, None)  # to the end: the order is that in which they went
        self._records[record.name] = record
        self._encoded = None

    def _drop_oldest(self) -> None:
        """Forget who has long been gone, if these are many."""
        if len(self._records) <= MAX_GONE:
            return
        gone = [record for record in self._records.values() if not record.is_living and record.name != self._name]
        for record in sorted(gone, key=lambda record: record.status != "left")[: max(0, len(gone) - MAX_GONE)]:
            del self._records[record.name]
            self._encoded = None

    def _merge_own(self, record: PeerRecord) -> None:
        me = self.me
        if record.life > me.life:
            self.rival = record
        elif record.is_later_than(me):
            self.refute(record)  # others never raise a beat: it is made up
        elif record.is_newer_than(me):
            self.amend()
