"""How much of its data a peer trains next: figures are shared, and every peer computes the same answer from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.allocation import Candidate, RoundTerms
from paceline.allocation.gossip import GossipPolicy, take_over
from paceline.devices.contention.predictors import Predictor
from paceline.devices.profiles import Profile, Rate
from paceline.events import Emit
from paceline.topologies.gossip.events import DataMissing, PartTakenOver
from paceline.topologies.gossip.local import LocalData
from paceline.topologies.gossip.members import MAX_COUNT, Member, Membership
from paceline.topologies.gossip.stores import Figures, Store

_NO_LINK = Rate(1.0)  # peers train what they have: no link plays a part


class GossipedStore(Store):
    """Figures that peers tell each other along with who is there; the default, which needs nothing else.

    Those of a peer that is gone are not valid.
    """

    name = "gossip"

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    async def publish(self, figures: Figures) -> None:
        self._membership.amend(figures=figures)

    async def read(self) -> dict[str, Figures]:
        return {member.name: member.figures for member in self._membership.living() if member.figures is not None}

    async def aclose(self) -> None:
        return


class Balancer:
    """Decides, before each epoch, how many samples its peer trains; and whose data, if too many have failed."""

    def __init__(
        self, policy: GossipPolicy, membership: Membership, store: Store, predictor: Predictor, emit: Emit
    ) -> None:
        self._policy = policy
        self._membership = membership
        self._store = store
        self._predictor = predictor
        self._emit = emit
        self._missing: tuple[str, ...] = ()

    async def tell(self, epoch: int, num_samples: int) -> Figures:
        """Publish what is expected of this peer; `epoch` is the last that it has trained."""
        figures = Figures(
            learner=self._membership.me.name,
            samples_per_second=self._predictor.samples_per_second(),
            num_samples=num_samples,
            epoch=epoch,
        )
        await self._store.publish(figures)
        return figures

    async def decide(self, epoch: int, at: float, data: LocalData) -> tuple[int, float]:
        """How many samples to train in an epoch, and the samples per second that were expected."""
        known = await self._store.read()
        await self._make_up(epoch, at, data, known)
        own = await self.tell(epoch - 1, data.num_samples)
        known[own.learner] = own
        fleet = self._fleet(known)
        terms = RoundTerms(
            deadline_seconds=1.0,
            local_epochs=1,
            model_bytes=0,
            shard_bytes=0,
            shard_samples=1,
            num_shards=MAX_COUNT,  # what each has is its own limit
        )
        places = [candidate.name for candidate in fleet]
        share = self._policy.allocate(terms, fleet)[places.index(own.learner)]
        return share.num_shards, own.samples_per_second

    async def _make_up(self, epoch: int, at: float, data: LocalData, known: Mapping[str, Figures]) -> None:
        """Where too many have failed, train what they had, if this peer is the one; else tell what is missing."""
        fleet = self._fleet(known)
        name = self._membership.me.name
        failed = self._policy.failed(fleet) if self._policy.is_exceptional(fleet) else []
        failed = [other for other in failed if other != name]
        usable = {member.name for member in self._membership.living()} - set(failed)
        trained = {part for member in self._membership.living() if member.name in usable for part in member.parts[:1]}
        owners = {member.name: member for member in map(self._owner, failed)}
        # Whose part another trains as its own has come back under another name.
        owners = {other: member for other, member in owners.items() if trained.isdisjoint(member.parts[:1])}
        holders = {other: self._holders(member) for other, member in owners.items()}
        heirs, missing = take_over(owners, usable, holders)
        taken = {owners[other].parts[0]: other for other, heir in heirs.items() if heir == name}
        for part in sorted(set(taken) - set(data.taken)):
            self._emit(
                PartTakenOver(
                    at=at, learner=name, other=taken[part], epoch=epoch, num_samples=data.copy(part).num_samples
                )
            )
        await data.take(tuple(sorted(taken)))
        if missing and missing != self._missing:
            self._emit(
                DataMissing(
                    at=at,
                    learner=name,
                    epoch=epoch,
                    others=missing,
                    share_failed=len(failed) / len(fleet),
                    num_samples=sum(_num_samples(owners[other]) for other in missing),
                )
            )
        self._missing = missing

    def _fleet(self, known: Mapping[str, Figures]) -> list[Candidate]:
        """All that take part or died in it; newcomers that told nothing yet are left out."""
        members = [member for member in self._membership.everybody() if member.status != "left"]
        return [_candidate(member, known.get(member.name)) for member in members if _is_known(member, known)]

    def _owner(self, name: str) -> Member:
        member = self._membership.get(name)
        assert member is not None
        return member

    def _holders(self, owner: Member) -> Sequence[str]:
        """Who has a copy of a peer's part, from the next by name around."""
        if not owner.parts:
            return ()
        part = owner.parts[0]
        holders = [member.name for member in self._membership.everybody() if part in member.parts[1:]]
        return sorted(holders, key=lambda name: (name < owner.name, name))


def _is_known(member: Member, known: Mapping[str, Figures]) -> bool:
    return not member.is_living or member.name in known


def _num_samples(member: Member) -> int:
    return 0 if member.figures is None else member.figures.num_samples


def _candidate(member: Member, figures: Figures | None) -> Candidate:
    if not member.is_living or figures is None or not figures.samples_per_second > 0:
        return Candidate(name=member.name, max_shards=_num_samples(member))
    profile = Profile(train=Rate(figures.samples_per_second), down=_NO_LINK, up=_NO_LINK)
    return Candidate(name=member.name, profile=profile, max_shards=min(figures.num_samples, MAX_COUNT))
