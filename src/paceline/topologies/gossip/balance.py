"""How much of its data a peer trains next: figures are shared, and every peer computes the same answer from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.allocation import Candidate, RoundTerms
from paceline.allocation.edge_gossip import BalancingPolicy, take_over
from paceline.checks import MOST
from paceline.devices.contention.predictors import Predictor
from paceline.devices.profiles import Profile, Rate
from paceline.events import Emit
from paceline.topologies.gossip.events import DataMissing, PartTakenOver
from paceline.topologies.gossip.figures import Figures
from paceline.topologies.gossip.membership import Membership, PeerRecord
from paceline.topologies.gossip.peer_data import TrainingData
from paceline.topologies.gossip.stores import Store

_NO_LINK = Rate(1.0)  # peers train what they have: no link plays a part, and what each has is its own limit
_SIZES = {"model_bytes": 0, "shard_bytes": 0, "shard_samples": 1, "num_shards": MOST}
_TERMS = RoundTerms(deadline_seconds=1.0, local_epochs=1, **_SIZES)


class Balancer:
    """Decides, before each epoch, how many samples its peer trains; and whose data, if too many have failed."""

    def __init__(
        self, policy: BalancingPolicy, membership: Membership, store: Store, predictor: Predictor, emit: Emit
    ) -> None:
        self._policy = policy
        self._membership = membership
        self._store = store
        self._predictor = predictor
        self._emit = emit
        self._missing: tuple[str, ...] = ()

    async def publish_speed(self, epoch: int, num_samples: int) -> Figures:
        """Publish the speed that is expected of this peer; `epoch` is the last that it has trained."""
        figures = Figures(
            learner=self._membership.me.name,
            samples_per_second=self._predictor.samples_per_second(),
            num_samples=num_samples,
            epoch=epoch,
        )
        await self._store.publish(figures)
        return figures

    async def decide(self, epoch: int, at: float, data: TrainingData) -> tuple[int, float]:
        """Return how many samples to train in an epoch, and the samples per second that were expected."""
        known = await self._store.read()
        await self._cover_failures(epoch, at, data, known)
        own = await self.publish_speed(epoch - 1, data.num_samples)
        known[own.learner] = own
        candidates = self._candidates(known)
        places = [candidate.name for candidate in candidates]
        share = self._policy.allocate(_TERMS, candidates)[places.index(own.learner)]
        return share.num_shards, own.samples_per_second

    async def _cover_failures(self, epoch: int, at: float, data: TrainingData, known: Mapping[str, Figures]) -> None:
        """Where too many have failed, train what they had, if this peer is the one; else report what is missing."""
        candidates = self._candidates(known)
        name = self._membership.me.name
        failed = self._policy.failed(candidates) if self._policy.is_exceptional(candidates) else []
        failed = [other for other in failed if other != name]
        usable = {record.name for record in self._membership.living()} - set(failed)
        trained = {part for record in self._membership.living() if record.name in usable for part in record.parts[:1]}
        everybody = {record.name: record for record in self._membership.everybody()}
        # Whose part another trains as its own has come back under another name.
        owners = {other: everybody[other] for other in failed if trained.isdisjoint(everybody[other].parts[:1])}
        holders = {other: self._holders(record) for other, record in owners.items()}
        heirs, missing = take_over(owners, usable, holders)
        taken = {owners[other].parts[0]: other for other, heir in heirs.items() if heir == name}
        for part in sorted(set(taken) - set(data.taken)):
            num_samples = data.copy(part).num_samples
            self._emit(PartTakenOver(at=at, learner=name, other=taken[part], epoch=epoch, num_samples=num_samples))
        await data.take(tuple(sorted(taken)))
        if missing and missing != self._missing:
            share, lost = len(failed) / len(candidates), sum(_num_samples(owners[other]) for other in missing)
            self._emit(
                DataMissing(at=at, learner=name, epoch=epoch, others=missing, share_failed=share, num_samples=lost)
            )
        self._missing = missing

    def _candidates(self, known: Mapping[str, Figures]) -> list[Candidate]:
        """Return all that take part or died in it; newcomers that published nothing yet are left out."""
        records = [record for record in self._membership.everybody() if record.status != "left"]
        taking_part = [record for record in records if not record.is_living or record.name in known]
        return [_candidate(record, known.get(record.name)) for record in taking_part]

    def _holders(self, owner: PeerRecord) -> Sequence[str]:
        """Return who has a copy of a peer's part, from the next by name around."""
        if not owner.parts:
            return ()
        part = owner.parts[0]
        holders = [record.name for record in self._membership.everybody() if part in record.parts[1:]]
        return sorted(holders, key=lambda name: (name < owner.name, name))


def _num_samples(record: PeerRecord) -> int:
    return 0 if record.figures is None else record.figures.num_samples


def _candidate(record: PeerRecord, figures: Figures | None) -> Candidate:
    if not record.is_living or figures is None or not figures.samples_per_second > 0:
        return Candidate(name=record.name, max_shards=_num_samples(record))
    profile = Profile(train=Rate(figures.samples_per_second), down=_NO_LINK, up=_NO_LINK)
    return Candidate(name=record.name, profile=profile, max_shards=min(figures.num_samples, MOST))
