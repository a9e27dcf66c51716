"""Masks of one round at the orchestrator: who agrees on them, whose updates they cover, who helps to take them off."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from paceline.learning.privacy import Unmasking, num_needed
from paceline.learning.privacy.masks import COMMITMENT_BYTES, KEYS_BYTES, SEALED_BYTES
from paceline.learning.privacy.shamir import SHARE_BYTES
from paceline.learning.privacy.spec import MIN_MASKED
from paceline.learning.vectors import Vectors
from paceline.topologies.parallel.messages import MASKED

AGREEING_PART = 0.1
"""Part of the deadline in which the learners of a round show their keys, and then again, share their secrets."""


class Masking:
    """What learners show and share in one round; each stage begins when the one before is closed.

    Args:
        size: number of values of an update.
        on_change: called when something came.

    Attributes:
        members: who took part in time, once nobody else can.
        unmasking: adds up what is masked, once it is known who shared their secrets.
        survivors: whose updates came, once no more can.
    """

    def __init__(self, size: int, on_change: Callable[[], None]) -> None:
        self._size = size
        self._on_change = on_change
        self._keys: dict[str, bytes] = {}
        self._commitments: dict[str, bytes] = {}
        self._sealed: dict[str, Mapping[str, bytes]] = {}
        self._revealed: dict[str, Mapping[str, bytes]] = {}
        self.members: Collection[str] | None = None
        self.unmasking: Unmasking | None = None
        self.survivors: list[str] | None = None

    # What learners call.

    def show(self, learner: str, keys: bytes, commitment: bytes) -> None:
        """Take a learner's public keys; raises `ValueError` if they are none, or too late."""
        if len(keys) != KEYS_BYTES or len(commitment) != COMMITMENT_BYTES:
            raise ValueError(f"keys of masks are {KEYS_BYTES} bytes, and {COMMITMENT_BYTES} to be held to")
        if self.members is not None and (learner not in self.members or self._keys[learner] != keys):
            raise ValueError("the learners of this round have agreed on their masks already")
        self._keys[learner], self._commitments[learner] = keys, commitment
        self._on_change()

    def keys_of_all(self) -> dict[str, bytes] | None:
        """Return the keys of all members; None while there may be more. Raises `ValueError` for too few."""
        if self.members is None:
            return None
        if len(self.members) < MIN_MASKED:
            raise ValueError(f"{len(self.members)} learners are too few to hide an update among")
        return {name: self._keys[name] for name in self.members}

    def share(self, learner: str, sealed: Mapping[str, bytes]) -> None:
        """Take what a learner has sealed for each of the others; raises `ValueError` if it is not that."""
        members = self._member(learner)
        if self.unmasking is not None and learner not in self._sealed:
            raise ValueError("the learners of this round have shared their secrets already")
        if sealed.keys() != set(members) - {learner} or any(len(one) != SEALED_BYTES for one in sealed.values()):
            raise ValueError(f"secrets are shared with each of the others, in {SEALED_BYTES} bytes")
        self._sealed.setdefault(learner, dict(sealed))
        self._on_change()

    def sealed_for(self, learner: str) -> dict[str, bytes] | None:
        """Return what others sealed for a learner; None as long as there may be more."""
        if self.unmasking is None:
            return None
        return {name: sealed[learner] for name, sealed in self._sealed.items() if name != learner}

    def reveal(self, learner: str, shares: Mapping[str, bytes]) -> None:
        """Take shares that help to take off the masks; raises `ValueError` if they are not that."""
        if self.survivors is None or learner not in self.survivors:
            raise ValueError("only those whose updates came can help to unmask their sum, once all have come")
        if shares.keys() != self._sealed.keys() or any(len(share) != SHARE_BYTES for share in shares.values()):
            raise ValueError(f"a share of each learner's secret is revealed, in {SHARE_BYTES} bytes")
        self._revealed.setdefault(learner, dict(shares))
        self._on_change()

    # What the round does.

    def have_shown(self, awaited: Collection[str]) -> bool:
        """Return whether all of these have shown their keys."""
        return self._keys.keys() >= set(awaited)

    def close_showing(self) -> None:
        """Let nobody else in."""
        self.members = sorted(self._keys)
        self._on_change()

    @property
    def have_all_shared(self) -> bool:
        """Whether all members have shared their secrets, or none will."""
        return len(self._sealed) == len(self.members or ()) or len(self.members or ()) < MIN_MASKED

    def close_sharing(self) -> None:
        """Have updates be masked among those that have shared their secrets."""
        commitments = {name: self._commitments[name] for name in self._sealed}
        self.unmasking = Unmasking({name: self._keys[name] for name in self.members or ()}, commitments, self._size)
        self._on_change()

    def add(self, learner: str, sent: Vectors) -> str | None:
        """Take a masked update; returns the reason if it is none that could be unmasked."""
        if self.unmasking is None or learner not in self._sealed:
            return "it has not shared its secrets with the others in time"
        if sent.keys() != {MASKED}:
            return f"a masked update has one part, {MASKED}"
        reason = self.unmasking.why_unlike(sent[MASKED])
        if reason is None:
            self.unmasking.add(learner, sent[MASKED])
        return reason

    @property
    def sharing(self) -> Collection[str]:
        """Members that have shared their secrets."""
        return self._sealed.keys()

    def close_updates(self, delivered: Collection[str]) -> None:
        """Ask those whose updates came to help with the masks."""
        self.survivors = sorted(delivered)
        self._on_change()

    @property
    def can_unmask(self) -> bool:
        """Whether enough have helped, or not enough can."""
        needed = num_needed(len(self.members or ()))
        return len(self._revealed) >= needed or len(self.survivors or ()) < needed

    def finish(self, like: Vectors, weight: float) -> Vectors:
        """Return the mean of the updates; raises `MaskError` if the masks cannot be taken off."""
        assert self.unmasking is not None
        return self.unmasking.finish(self._revealed, like, weight)

    def _member(self, learner: str) -> Collection[str]:
        if self.members is None or learner not in self.members:
            raise ValueError("the learners of this round have not agreed on their masks, or without this one")
        return self.members
